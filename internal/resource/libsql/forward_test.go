package libsql_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/resource/libsql"
	"steward/internal/waittest"
)

// startTwo starts the engines of two nodes, and returns a database of the first one as clients of either have it.
func startTwo(t *testing.T, limits libsql.Limits) (here, there *database) {
	t.Helper()
	owner := start(t, libsql.Limits{})
	forwarded := httptest.NewServer(http.HandlerFunc(owner.ServeForwarded))
	t.Cleanup(forwarded.Close)
	address, err := url.Parse(forwarded.URL)
	owner.must(err)
	other := startEngine(t, &libsql.Engine{Dir: t.TempDir(), Limits: limits, Nodes: forwarder(func(w http.ResponseWriter, r *http.Request, body []byte) error {
		r.Body = io.NopCloser(bytes.NewReader(body))
		var failed error
		proxy := httputil.NewSingleHostReverseProxy(address)
		proxy.ErrorHandler = func(_ http.ResponseWriter, _ *http.Request, err error) {
			failed = errs.Unavailablef(err, "the node does not answer")
		}
		proxy.ServeHTTP(w, r)
		return failed
	})})
	here = owner.create()
	return here, here.at(other)
}

// forwarder forwards requests to the other node.
type forwarder func(w http.ResponseWriter, r *http.Request, body []byte) error

func (f forwarder) Forward(w http.ResponseWriter, r *http.Request, body []byte, _ string) error {
	return f(w, r, body)
}

// at returns a database as clients of another node have it.
func (d *database) at(other *server) *database {
	elsewhere := *d.p
	elsewhere.Node = "node_owner"
	other.set(&elsewhere)
	return &database{server: other, t: d.t, p: &elsewhere, token: d.token}
}

func TestRequestsArePassedOn(t *testing.T) {
	here, there := startTwo(t, libsql.Limits{})
	there.exec("CREATE TABLE t (v)")
	there.exec("INSERT INTO t VALUES ('one')")
	if got := here.exec("SELECT v FROM t").only(t); got != "one" {
		t.Errorf("got %v", got)
	}
	begun := there.pipeline(nil, execute("BEGIN"), execute("DELETE FROM t"))
	if begun.status != 200 || begun.Baton == nil {
		t.Fatalf("BEGIN: %s", begun.raw)
	}
	if got := here.pipeline(begun.Baton, execute("ROLLBACK")); got.status != 200 {
		t.Errorf("ROLLBACK: %s", got.raw)
	}
	for _, u := range there.Usage() {
		if u.In == 0 || u.Out == 0 {
			t.Errorf("use: %+v", u)
		}
	}
	if n := there.Forwards() + there.MemoryUsed(); n != 0 {
		t.Errorf("%d are charged after the requests", n)
	}
}

// TestPassedRequestsEndWithTheirPassword rotates while a statement runs: at the node that passes its request on, and
// at the one that runs it.
func TestPassedRequestsEndWithTheirPassword(t *testing.T) {
	for _, name := range []string{"here", "there"} {
		t.Run(name, func(t *testing.T) {
			here, there := startTwo(t, libsql.Limits{})
			result := make(chan int, 1)
			go func() { result <- there.pipeline(nil, execute(endless)).status }()
			waittest.True(t, "the statement to run", func() bool { return here.Sessions(here.p.ID) == 1 })
			rotated := map[string]*database{"here": here, "there": there}[name]
			p := *rotated.p
			p.Password = id.Secret(43)
			rotated.set(&p)
			rotated.must(rotated.Rotate(t.Context(), &p))
			waittest.Receive(t, "the request to end", result)
			waittest.True(t, "the statement to end", func() bool { return here.Sessions(here.p.ID) == 0 })
			if got := there.pipeline(nil, execute("SELECT 1")); got.status != 401 {
				t.Errorf("the old password: %d", got.status)
			}
		})
	}
}

// TestForgetEndsPassedRequests deletes the row as another replica does.
func TestForgetEndsPassedRequests(t *testing.T) {
	here, there := startTwo(t, libsql.Limits{})
	result := make(chan int, 1)
	go func() { result <- there.pipeline(nil, execute(endless)).status }()
	waittest.True(t, "the statement to run", func() bool { return here.Sessions(here.p.ID) == 1 })
	there.remove(there.p.ID)
	there.Forget()
	waittest.Receive(t, "the request to end", result)
	waittest.True(t, "the statement to end", func() bool { return here.Sessions(here.p.ID) == 0 })
}

func TestPassedRequestIsNotPassedOnAgain(t *testing.T) {
	here, there := startTwo(t, libsql.Limits{})
	here.Nodes = forwarder(func(http.ResponseWriter, *http.Request, []byte) error {
		t.Error("the request is passed on again")
		return nil
	})
	elsewhere := *here.p
	elsewhere.Node = "node_third"
	here.set(&elsewhere)
	here.Engine.Forget()
	if got := there.pipeline(nil, execute("SELECT 1")); got.status != 503 || !strings.Contains(got.Message, "another node") {
		t.Errorf("%d: %s", got.status, got.raw)
	}
}

// TestPassedRequestsOfATenantDelayNoOther has a tenant use up what it may pass on at a time.
func TestPassedRequestsOfATenantDelayNoOther(t *testing.T) {
	here, there := startTwo(t, libsql.Limits{Forwards: 8, Connections: 1})
	second := here.createOf("org_second").at(there.server)
	statuses := make(chan int, 20)
	for range 20 {
		go func() { statuses <- there.pipeline(nil, execute(endless)).status }()
	}
	if status := waittest.Receive(t, "a request to be refused", statuses); status != 503 { // those that run do not end
		t.Errorf("status %d", status)
	}
	if got := second.pipeline(nil, execute("SELECT 1")); got.status != 200 {
		t.Errorf("the second tenant: %d %s", got.status, got.raw)
	}
	p := *there.p
	p.Password = id.Secret(43)
	there.set(&p)
	there.must(there.Rotate(t.Context(), &p)) // ends the others
	for range 19 {
		waittest.Receive(t, "the requests to end", statuses)
	}
}

func TestDatabaseOfDeadNodeIsUnavailable(t *testing.T) {
	_, there := startTwo(t, libsql.Limits{})
	there.Nodes = forwarder(func(http.ResponseWriter, *http.Request, []byte) error {
		return errs.Unavailablef(nil, "node node_owner does not answer")
	})
	got := there.pipeline(nil, execute("SELECT 1"))
	if got.status != 503 || !strings.Contains(got.Message, "node_owner") {
		t.Errorf("%d: %s", got.status, got.raw)
	}
}

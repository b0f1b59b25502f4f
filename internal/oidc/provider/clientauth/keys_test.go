package clientauth_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"steward/internal/auth"
	"steward/internal/id"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/webhook/send"
)

// publisher serves the keys of a client as a test wants it to.
type publisher struct {
	*httptest.Server
	requests atomic.Int64

	mu    sync.Mutex
	serve http.HandlerFunc
}

func newPublisher(t *testing.T, serve http.HandlerFunc) *publisher {
	p := &publisher{serve: serve}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.requests.Add(1)
		p.mu.Lock()
		serve := p.serve
		p.mu.Unlock()
		serve(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// become changes what is served.
func (p *publisher) become(serve http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serve = serve
}

// publish serves the public keys of signers.
func publish(t *testing.T, signers ...*signer) http.HandlerFunc {
	t.Helper()
	text := keySet(t, signers...)
	return func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(text)) }
}

func fail(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }

func at(uri string) string { return `"jwks_uri": "` + uri + `"` }

func TestPublishedKeysAreReadWhenNeeded(t *testing.T) {
	f := providertest.OnSQLite(t)
	first, second := newSigner(t, jose.ES256, "first"), newSigner(t, jose.RS256, "second")
	p := newPublisher(t, publish(t, first))
	wantRequests := func(want int64) {
		t.Helper()
		if got := p.requests.Load(); got != want {
			t.Errorf("%d requests for keys, want %d", got, want)
		}
	}
	a := newKeyApp(f, first, at(p.URL+"/jwks"))
	for range 3 {
		a.token(a.good()).Want(http.StatusOK)
	}
	wantRequests(1)
	// A new key is found as soon as it is used, but not within a minute of the last request.
	p.become(publish(t, first, second))
	a.signer = second
	for range 3 {
		a.refused("key that is not known yet", a.good())
	}
	wantRequests(1)
	f.Clock.Add(time.Minute)
	a.token(a.good()).Want(http.StatusOK)
	wantRequests(2)
	// A key that was removed is refused once the keys are read again.
	p.become(publish(t, second))
	f.Clock.Add(10 * time.Minute)
	a.token(a.good()).Want(http.StatusOK)
	wantRequests(3)
	a.signer = first
	a.refused("key that was removed", a.good())
	wantRequests(3)
	// Keys stay while requests fail, for a day.
	a.signer = second
	for _, broken := range []http.HandlerFunc{
		fail,
		func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{`)) },
		func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{}`)) },
	} {
		p.become(broken)
		f.Clock.Add(20 * time.Minute)
		a.token(a.good()).Want(http.StatusOK)
	}
	wantRequests(6)
	f.Clock.Add(24 * time.Hour)
	a.refused("keys of the day before", a.good())
	p.become(publish(t, second))
	f.Clock.Add(time.Minute)
	a.token(a.good()).Want(http.StatusOK)
}

func TestBadPublishersAreRefused(t *testing.T) {
	f := providertest.OnSQLite(t)
	s := newSigner(t, jose.ES256, "a")
	good := newPublisher(t, publish(t, s))
	for why, serve := range map[string]http.HandlerFunc{
		"error": fail,
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, good.URL, http.StatusFound)
		},
		"redirect with keys": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", good.URL)
			w.WriteHeader(http.StatusSeeOther)
			publish(t, s)(w, r)
		},
		"no keys": func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"keys": []}`)) },
		"endless": func(w http.ResponseWriter, r *http.Request) {
			publish(t, s)(w, r)
			blanks := make([]byte, 32<<10)
			for i := range blanks {
				blanks[i] = ' '
			}
			for r.Context().Err() == nil {
				if _, err := w.Write(blanks); err != nil {
					return
				}
			}
		},
		"too large": func(w http.ResponseWriter, r *http.Request) {
			publish(t, s)(w, r)
			for range 64 << 10 {
				w.Write([]byte(" "))
			}
		},
	} {
		p := newPublisher(t, serve)
		a := newKeyApp(f, s, at(p.URL))
		a.refused(why, a.good())
		a.refused(why, a.good())
		if n := p.requests.Load(); n != 1 {
			t.Errorf("%s: %d requests", why, n)
		}
	}
	if n := good.requests.Load(); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

// TestKeysAreNotReadFromPrivateNetworks uses the egress check of an installation that others can reach.
func TestKeysAreNotReadFromPrivateNetworks(t *testing.T) {
	f := providertest.OnSQLite(t)
	s := newSigner(t, jose.ES256, "a")
	p := newPublisher(t, publish(t, s))
	public := f.NewProvider()
	public.Egress = send.Egress{}.Transport()
	f.Serve(public)
	for _, uri := range []string{
		p.URL, "https://127.0.0.1/", "https://localhost/", "https://10.0.0.1/", "https://192.168.1.1/", "https://172.16.0.1/",
		"https://169.254.169.254/latest/meta-data/", "https://[::1]/", "https://[fd00:ec2::254]/", "https://100.64.0.1/",
	} {
		a := newKeyApp(f, s, at(uri))
		a.refused(uri, a.good())
	}
	if n := p.requests.Load(); n != 0 {
		t.Errorf("%d requests were sent to this machine", n)
	}
	// Without a transport nothing is requested at all.
	public = f.NewProvider()
	public.Egress = nil
	f.Serve(public)
	a := newKeyApp(f, s, at(p.URL))
	a.refused("no transport", a.good())
	if n := p.requests.Load(); n != 0 {
		t.Errorf("%d requests were sent without a transport", n)
	}
}

// TestConcurrentRequestsShareOneRequestForKeys holds the response back until all assertions were sent.
func TestConcurrentRequestsShareOneRequestForKeys(t *testing.T) {
	f := providertest.OnSQLite(t)
	s := newSigner(t, jose.ES256, "a")
	started, release := make(chan struct{}, 100), make(chan struct{})
	p := newPublisher(t, func(w http.ResponseWriter, r *http.Request) {
		started <- struct{}{}
		<-release
		publish(t, s)(w, r)
	})
	a := newKeyApp(f, s, at(p.URL))
	other := newSigner(t, jose.ES256, "b")
	b := newKeyApp(f, other, registered(t, other))
	_, err := f.Keys.Set(t.Context()) // generates the keys that sign tokens, which takes long
	providertest.Must(t, err)
	var group sync.WaitGroup
	statuses := make([]int, 10)
	for i := range statuses {
		assertion := a.good()
		group.Go(func() { statuses[i] = a.token(assertion).Status })
	}
	<-started
	b.token(b.good()).Want(http.StatusOK) // another client is not delayed
	close(release)
	group.Wait()
	for _, status := range statuses {
		if status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	}
	if n := p.requests.Load(); n != 1 {
		t.Errorf("%d requests for keys", n)
	}
}

// TestSlowPublishersOfOneOrganizationDelayNoOther fills the share of an organization with clients whose publisher
// does not answer.
func TestSlowPublishersOfOneOrganizationDelayNoOther(t *testing.T) {
	const clients, share = 10, 8
	f := providertest.OnSQLite(t)
	s := newSigner(t, jose.ES256, "a")
	release := make(chan struct{})
	slow := newPublisher(t, func(w http.ResponseWriter, r *http.Request) {
		<-release
		publish(t, s)(w, r)
	})
	var apps []*keyApp
	for range clients {
		apps = append(apps, newKeyApp(f, s, at(slow.URL)))
	}
	f.Ctx = auth.With(t.Context(), &auth.Caller{UserID: f.UserID, OrgID: id.New(id.Org), Role: auth.Owner})
	other := newKeyApp(f, s, at(newPublisher(t, publish(t, s)).URL))
	_, err := f.Keys.Set(t.Context()) // generates the keys that sign tokens, which takes long
	providertest.Must(t, err)
	statuses := make(chan int, clients)
	for _, a := range apps {
		assertion := a.good()
		go func() { statuses <- a.token(assertion).Status }()
	}
	for range clients - share {
		if status := <-statuses; status != http.StatusUnauthorized {
			t.Errorf("status %d beyond the share", status)
		}
	}
	other.token(other.good()).Want(http.StatusOK)
	close(release)
	for range share {
		if status := <-statuses; status != http.StatusOK {
			t.Errorf("status %d within the share", status)
		}
	}
}

package thread

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"steward/internal/account"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/waittest"
	"steward/internal/web"
)

const org = "org_a"

var (
	// whole and other are callers with all rights in two organizations.
	whole = &auth.Caller{OrgID: org, UserID: "usr_a", Role: auth.Owner, KeyID: "key_a"}
	other = &auth.Caller{OrgID: "org_b", UserID: "usr_b", Role: auth.Owner, KeyID: "key_b"}
)

// confined returns a caller of the first organization whose key is confined to a project.
func confined(projectID string) *auth.Caller {
	return &auth.Caller{OrgID: org, UserID: "usr_a", Role: auth.Owner, KeyID: "key_" + projectID, ProjectID: projectID}
}

// clock is one millisecond later each time it is read.
type clock struct {
	sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.Lock()
	defer c.Unlock()
	c.at = c.at.Add(time.Millisecond)
	return c.at
}

func newStore(t testing.TB, d *db.DB) *Store {
	ring, err := seal.NewRing(make([]byte, seal.KeySize))
	must(t, err)
	c := &clock{at: time.Date(2026, 11, 15, 8, 0, 0, 0, time.UTC)}
	for _, orgID := range []string{org, other.OrgID} {
		_, err := d.Exec(t.Context(), `INSERT INTO projects (org_id, id, name, created_at, version)
			VALUES ($1, 'prj_default', 'default', 0, 1) ON CONFLICT (org_id, id) DO NOTHING`, orgID)
		must(t, err)
	}
	return &Store{
		DB: d, Now: c.now, Ring: ring, Retention: time.Hour, Decoding: web.NewDecoding(),
		Audit: &audit.Store{Now: time.Now}, Accounts: &account.Store{DB: d, Now: c.now, Audit: &audit.Store{Now: time.Now}},
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t testing.TB, err error, kind errs.Kind) {
	t.Helper()
	if errs.KindOf(err) != kind {
		t.Errorf("got %v, want %q", err, kind)
	}
}

func put(t testing.TB, s *Store, caller *auth.Caller, id, project string, userData *string, metadata string) Thread {
	t.Helper()
	p := Put{ProjectID: project, UserData: userData}
	if metadata != "" {
		p.Metadata = Metadata(metadata)
	}
	out, err := s.Put(t.Context(), caller, id, page.IfMatch{}, p)
	must(t, err)
	return out
}

func text(s string) *string { return &s }

// keyring holds the API keys of a test.
type keyring struct {
	sync.Mutex
	callers map[string]*auth.Caller
}

func (k *keyring) authenticate(_ context.Context, key string) (*auth.Caller, error) {
	k.Lock()
	defer k.Unlock()
	if c := k.callers[key]; c != nil {
		return c, nil
	}
	return nil, errs.New(errs.Unauthorized, "unknown key")
}

func (k *keyring) set(key string, c *auth.Caller) {
	k.Lock()
	defer k.Unlock()
	k.callers[key] = c
}

// socketFixture serves the sockets of a fresh store.
type socketFixture struct {
	*testing.T
	store  *Store
	socket *Socket
	keys   *keyring
	url    string
}

// newSocketFixture has the API keys whole, other, viewer, p1 and p2.
func newSocketFixture(t *testing.T, d *db.DB) *socketFixture {
	viewer := *whole
	viewer.Role = auth.Viewer
	keys := &keyring{callers: map[string]*auth.Caller{
		"whole": whole, "other": other, "viewer": &viewer, "p1": confined("p1"), "p2": confined("p2"),
	}}
	s := newStore(t, d)
	socket := NewSocket(s, keys.authenticate, 1000, 64<<20)
	srv := httptest.NewServer(socket)
	t.Cleanup(func() {
		srv.Close()
		closed := make(chan error, 1)
		go func() { closed <- socket.Close(context.Background()) }()
		must(t, waittest.Receive(t, "the sockets to close", closed))
	})
	return &socketFixture{T: t, store: s, socket: socket, keys: keys, url: srv.URL}
}

// client is the runtime's side of a socket.
type client struct {
	t    *testing.T
	conn *websocket.Conn
	n    int
}

func (s *socketFixture) dial() *client {
	s.Helper()
	conn, _, err := websocket.Dial(s.Context(), s.url, nil)
	must(s, err)
	s.Cleanup(func() { _ = conn.CloseNow() }) // it may be closed already
	conn.SetReadLimit(maxFrame)
	return &client{t: s.T, conn: conn}
}

func (s *socketFixture) login(key string) *client {
	s.Helper()
	c := s.dial()
	c.send(fmt.Sprintf(`{"authorization":%q}`, key))
	if a := c.receive(); !a.Success {
		s.Fatalf("login with %s: %+v", key, a)
	}
	return c
}

func (c *client) send(text string) {
	c.t.Helper()
	must(c.t, c.conn.Write(c.t.Context(), websocket.MessageText, []byte(text)))
}

func (c *client) receive() (r response) {
	c.t.Helper()
	text, err := c.read()
	must(c.t, err)
	must(c.t, json.Unmarshal(text, &r))
	return r
}

// read reads a message. It fails if none arrives for a minute.
func (c *client) read() ([]byte, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	_, text, err := c.conn.Read(ctx)
	return text, err
}

// do sends an action and returns its response.
func (c *client) do(action string, data any) response {
	c.t.Helper()
	c.n++
	text, err := json.Marshal(object{"id": fmt.Sprint(c.n), "action": action, "data": data})
	must(c.t, err)
	c.send(string(text))
	r := c.receive()
	if string(r.ID) != fmt.Sprintf("%q", fmt.Sprint(c.n)) {
		c.t.Fatalf("the response to %d is for %s", c.n, r.ID)
	}
	return r
}

func (c *client) ok(action string, data any) *string {
	c.t.Helper()
	a := c.do(action, data)
	if !a.Success || a.Error != "" {
		c.t.Fatalf("%s: %+v", action, a)
	}
	return a.Data
}

func (c *client) refused(action string, data any, text string) {
	c.t.Helper()
	if a := c.do(action, data); a.Success || !strings.Contains(a.Error, text) {
		c.t.Errorf("%s: %+v, want an error with %q", action, a, text)
	}
}

// closed waits until the server closes the socket, and checks the status.
func (c *client) closed(want websocket.StatusCode) {
	c.t.Helper()
	for {
		if _, err := c.read(); err != nil {
			if got := websocket.CloseStatus(err); got != want {
				c.t.Errorf("closed with %v (%v), want %v", got, err, want)
			}
			return
		}
	}
}

type object = map[string]any

// start sends an action with an id and does not wait for the response.
func (c *client) start(id, action string, data object) {
	c.t.Helper()
	text, err := json.Marshal(object{"id": id, "action": action, "data": data})
	must(c.t, err)
	c.send(string(text))
}

// responses receives n responses, which must be successful, and returns their ids in the order in
// which they came.
func (c *client) responses(n int) (ids []string) {
	c.t.Helper()
	for range n {
		a := c.receive()
		if !a.Success {
			c.t.Errorf("got %+v", a)
		}
		var id string
		must(c.t, json.Unmarshal(a.ID, &id))
		ids = append(ids, id)
	}
	return ids
}

// blockFirst blocks the transaction that creates the next thread: entered receives when it has
// begun, and it goes on when proceed is closed.
func (s *socketFixture) blockFirst() (entered <-chan struct{}, proceed chan struct{}) {
	begun := make(chan struct{}, 1)
	proceed = make(chan struct{})
	var once atomic.Bool
	now := s.store.Now
	s.store.Now = func() time.Time { // the transaction asks for it when it writes the row
		if once.CompareAndSwap(false, true) {
			begun <- struct{}{}
			<-proceed
		}
		return now()
	}
	return begun, proceed
}

package tail

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/budget"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
	"steward/internal/waittest"
	"steward/internal/web"
	"steward/internal/webhook"
	"steward/internal/webhook/eventlog"
	"steward/internal/webhook/queue"
)

func TestMain(m *testing.M) {
	dbtest.OwnServer()
	os.Exit(m.Run())
}

var alice = &auth.Caller{OrgID: "org_a", UserID: "usr_alice", Role: auth.Owner, KeyID: "key_a"}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fixture is a server with webhooks and their tails.
type fixture struct {
	*httptest.Server
	t     *testing.T
	hooks *webhook.Handler
	tails *Server
	order []string // the ids of the receipts
	gaps  []string // that tails were told of
}

func newFixture(t *testing.T, d *db.DB) *fixture {
	ring, err := seal.NewRing([]byte("0123456789abcdef0123456789abcdef"))
	must(t, err)
	log := slog.New(slog.DiscardHandler)
	store := &webhook.Store{
		DB: d, Ring: ring, Now: time.Now, Log: log, Queue: &queue.Store{DB: d, Now: time.Now, Owner: "rep_1"},
		Audit: &audit.Store{Now: time.Now},
	}
	f := &fixture{t: t, hooks: &webhook.Handler{Store: store}, tails: New(store, log, 32<<20)}
	f.tails.Authorize = func(r *http.Request) (*auth.Caller, error) { return auth.From(r.Context()), nil }
	store.Logged = f.tails.Wake
	guard := func(_ web.Route, _ http.ResponseWriter, r *http.Request) *http.Request {
		caller := alice
		for _, other := range []*auth.Caller{bob, victor} {
			if r.Header.Get("Caller") == other.KeyID {
				caller = other
			}
		}
		return r.WithContext(auth.With(r.Context(), caller))
	}
	api := web.NewAPI([]web.Route{
		web.On("GET /webhook/tail", "", auth.ReadWebhooks, 200, "all", f.tails.All),
		web.On("GET /webhook/tail/{webhookId}", "", auth.ReadWebhooks, 200, "one", f.tails.One),
	}, guard, nil)
	api.Handle("/in/{id}/{token}", webhook.NewIngest(store, 1<<20, 64<<20))
	f.Server = httptest.NewServer(api)
	t.Cleanup(func() {
		f.tails.Close()
		f.Close()
	})
	return f
}

// hook creates a webhook and returns its id and the path of its ingest URL.
func (f *fixture) hook() (webhookID, path string) { return f.hookOf(alice) }

func (f *fixture) hookOf(caller *auth.Caller) (webhookID, path string) {
	f.t.Helper()
	in := &struct{ Body webhook.NewWebhook }{webhook.NewWebhook{Name: "orders"}}
	w, err := f.hooks.Create(auth.With(f.t.Context(), caller), in)
	must(f.t, err)
	return w.ID, w.URL
}

func (f *fixture) ingest(path string, n, size int) {
	f.t.Helper()
	for range n {
		res, err := http.Post(f.URL+path, "text/plain", strings.NewReader(strings.Repeat("x", size)))
		must(f.t, err)
		text, err := bufio.NewReader(res.Body).ReadString('\n')
		must(f.t, err)
		res.Body.Close()
		_, rest, _ := strings.Cut(text, `"id": "`)
		receiptID, _, _ := strings.Cut(rest, `"`)
		f.order = append(f.order, receiptID)
	}
}

// open begins a tail. next returns the receipt of the next event; it reads only when it is called.
func (f *fixture) open(path, position string) (next func() (receiptID, id string), stop func()) {
	f.t.Helper()
	return f.openAs(alice, path, position)
}

func (f *fixture) openAs(caller *auth.Caller, path, position string) (next func() (receiptID, id string), stop func()) {
	f.t.Helper()
	ctx, stop := context.WithCancel(f.t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", f.URL+path, nil)
	must(f.t, err)
	req.Header.Set("Last-Event-ID", position)
	req.Header.Set("Caller", caller.KeyID)
	res, err := http.DefaultClient.Do(req)
	must(f.t, err)
	if res.StatusCode != 200 {
		f.t.Fatalf("%s: status %d", path, res.StatusCode)
	}
	f.t.Cleanup(stop)
	lines := bufio.NewReaderSize(res.Body, 256<<10)
	var id string
	return func() (string, string) {
		for {
			line, err := lines.ReadString('\n')
			if ctx.Err() != nil {
				return "", ""
			}
			if err != nil {
				f.t.Fatalf("the tail ended: %v", err)
			}
			if text, ok := strings.CutPrefix(line, "id: "); ok {
				id = strings.TrimSpace(text)
			}
			if gap, ok := strings.CutPrefix(line, "data: {"); ok && strings.Contains(gap, `"since":`) && !strings.Contains(gap, `"id":`) {
				f.gaps = append(f.gaps, strings.TrimSpace("{"+gap))
			}
			if rest, ok := strings.CutPrefix(line, `data: {"id":"`); ok {
				receiptID, _, _ := strings.Cut(rest, `"`)
				return receiptID, id
			}
		}
	}, stop
}

// TestSlowReadersMissNothing has readers that begin to read long after the feed has dropped what they
// have not taken, and one that goes on from the middle.
func TestSlowReadersMissNothing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		one, path := f.hook()
		_, otherPath := f.hook()
		next, _ := f.open("/webhook/tail", "")
		slow, _ := f.open("/webhook/tail/"+one, "")
		var want []string
		for range 20 { // 13 MB: more than the buffers of a socket and of the feed
			f.ingest(path, 10, 50_000)
			want = append(want, f.order[len(f.order)-10:]...)
			f.ingest(otherPath, 5, 30_000)
		}
		check := func(name string, next func() (string, string), want []string) (positions []string) {
			for i, receiptID := range want {
				got, id := next()
				if got != receiptID {
					t.Fatalf("%s: event %d is %s, want %s", name, i, got, receiptID)
				}
				positions = append(positions, id)
			}
			return positions
		}
		positions := check("all", next, f.order)
		check("one webhook", slow, want)
		resumed, _ := f.open("/webhook/tail", positions[7])
		check("resumed", resumed, f.order[8:])
		f.ingest(path, 3, 10)
		for name, next := range map[string]func() (string, string){"all": next, "one webhook": slow, "resumed": resumed} {
			check(name+", at the end", next, f.order[len(f.order)-3:])
		}
	})
}

// TestTailsTellOfWhatIsNoLongerKept resumes after an event that was purged, and passes over receipts
// that are gone while their webhook is there.
func TestTailsTellOfWhatIsNoLongerKept(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		one, path := f.hook()
		_, otherPath := f.hook()
		next, stop := f.open("/webhook/tail", "")
		f.ingest(path, 20, 10)
		f.ingest(otherPath, 1, 10)
		f.ingest(path, 1, 10)
		_, first := next()
		stop()
		waittest.True(t, "the end of the feed, which has all events", func() bool { return f.tails.Open() == 0 })
		f.remove(f.order[5:20])
		resumed, _ := f.open("/webhook/tail", first)
		for _, want := range append(f.order[1:5:5], f.order[20:]...) {
			if got, _ := resumed(); got != want {
				t.Fatalf("%s, want %s", got, want)
			}
		}
		if len(f.gaps) != 1 || !strings.Contains(f.gaps[0], `"webhook_id":"`+one+`"`) {
			t.Fatalf("told of %v after receipts were removed", f.gaps)
		}
		if _, err := eventlog.Purge(t.Context(), d, alice.OrgID, stamp.Of(time.Now().Add(time.Hour)), 10); err != nil {
			t.Fatal(err)
		}
		_, stop = f.open("/webhook/tail", first) // it ends before the next event
		stop()
		lost, _ := f.open("/webhook/tail", first)
		f.ingest(otherPath, 2, 10)
		for _, want := range f.order[len(f.order)-2:] {
			if got, _ := lost(); got != want {
				t.Fatalf("%s, want %s", got, want)
			}
		}
		if len(f.gaps) != 2 || !strings.HasPrefix(f.gaps[1], `{"since":"`) {
			t.Fatalf("told of %v after the log was purged", f.gaps)
		}
	})
}

// TestDeletedWebhooksAreNoGaps passes over events of a webhook that was deleted.
func TestDeletedWebhooksAreNoGaps(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		one, path := f.hook()
		_, otherPath := f.hook()
		f.ingest(path, 3, 10)
		f.ingest(otherPath, 1, 10)
		must(t, f.hooks.Store.Delete(t.Context(), alice.OrgID, one, page.IfMatch{}))
		next, _ := f.open("/webhook/tail?since=2026-01-01T00:00:00Z", "")
		if got, _ := next(); got != f.order[3] || len(f.gaps) != 0 {
			t.Errorf("%s after gaps %v, want %s", got, f.gaps, f.order[3])
		}
	})
}

// TestClientsKeepTheirPositionBeforeAGap checks what a client is told that resumes after an event
// that was purged, before there is another one.
func TestClientsKeepTheirPositionBeforeAGap(t *testing.T) {
	rec := httptest.NewRecorder()
	c := &connection{missing: gaps{}, w: rec, out: http.NewResponseController(rec)}
	c.missing.add("", 1)
	must(t, c.tell(true))
	if got := rec.Body.String(); got != ":\n\n" {
		t.Errorf("told %q", got)
	}
	delete(c.missing, "")
	must(t, c.tell(true))
	if got := rec.Body.String(); !strings.Contains(got, "id: ") {
		t.Errorf("told %q", got)
	}
}

// running has a transaction run until stop is called.
func (f *fixture) running() (stop func()) {
	f.t.Helper()
	began, end := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		err := f.tails.Store.DB.Write(context.WithoutCancel(f.t.Context()), func(tx *db.Tx) error {
			_, err := tx.Exec(`CREATE TABLE other (id TEXT)`) // which takes a transaction id
			close(began)
			<-end
			return err
		})
		if err != nil {
			f.t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() {
		close(end)
		group.Wait()
	})
	f.t.Cleanup(stop)
	<-began
	return stop
}

// TestTailsThatEndShowAllThatWasCommitted reads the log while a transaction that began before the last
// commit is still running.
func TestTailsThatEndShowAllThatWasCommitted(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.Postgres))
	_, path := f.hook()
	stop := f.running()
	f.ingest(path, 2, 10)
	next, _ := f.open("/webhook/tail?follow=false&since=2026-01-01T00:00:00Z", "")
	time.AfterFunc(5*pace, stop)
	for _, want := range f.order {
		if got, _ := next(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestTailsThatFailDoNotEnd checks that a response that should have had more is cut off.
func TestTailsThatFailDoNotEnd(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.Postgres))
	_, path := f.hook()
	f.running()
	f.ingest(path, 1, 10)
	res, err := http.Get(f.URL + "/webhook/tail?follow=false&since=2026-01-01T00:00:00Z")
	must(t, err)
	defer res.Body.Close()
	f.tails.Close()
	if text, err := io.ReadAll(res.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, %v", text, err)
	}
}

// remove removes receipts as the retention does.
func (f *fixture) remove(receiptIDs []string) {
	f.t.Helper()
	must(f.t, f.tails.Store.DB.Write(f.t.Context(), func(tx *db.Tx) error {
		for _, receiptID := range receiptIDs {
			_, row, _ := strings.Cut(receiptID, "_")
			if n, err := tx.Exec(`DELETE FROM webhook_receipts WHERE substr(key, 27) = $1`, row); n != 1 || err != nil {
				return fmt.Errorf("%d rows were deleted: %w", n, err)
			}
		}
		return nil
	}))
}

// TestLoadsAreCutToABatch checks that a connection that waits for its reader has few bytes in memory.
func TestLoadsAreCutToABatch(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		_, path := f.hook()
		f.ingest(path, 20, 50_000)
		log, err := eventlog.After(d.Read(t.Context()), alice.OrgID, "", eventlog.Position{})
		must(t, err)
		loaded, n, err := f.tails.load(t.Context(), unloaded{audienceOf(alice), log.Events, gaps{}, batchBytes})
		must(t, err)
		if n != 2 || len(loaded) != 2 || loaded[1].at != log.Events[1].Position {
			t.Errorf("%d frames of %d events", len(loaded), n)
		}
	})
}

// TestTailsAreBounded has an organization with as many tails as it may have, which others do not notice.
func TestTailsAreBounded(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite))
	enter := func(orgID string, follow bool) (*connection, error) {
		c := &connection{audience: audience{orgID: orgID}}
		return c, f.tails.enter(c, follow)
	}
	var all []*connection
	c, err := enter("org_a", false)
	for ; err == nil; c, err = enter("org_a", false) {
		all = append(all, c)
	}
	if errs.KindOf(err) != errs.Unavailable || len(all) < 1000 || len(all) > maxOpen/2 {
		t.Errorf("%d of an organization: %v", len(all), err)
	}
	for range 1000 {
		c, err := enter("org_b", true)
		must(t, err)
		all = append(all, c)
	}
	if f.tails.Open() != len(all) {
		t.Errorf("%d tails, want %d", f.tails.Open(), len(all))
	}
	for _, c := range all {
		f.tails.leave(c)
	}
	if u := f.tails.Connections.Usage(); u.Owners != 0 || len(f.tails.feeds) != 0 || f.tails.Open() != 0 {
		t.Errorf("%d feeds, %d tails, %+v", len(f.tails.feeds), f.tails.Open(), u)
	}
}

// TestClosedTailsEnd also checks that the feed of an organization ends with its last connection.
func TestClosedTailsEnd(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite))
	_, stop := f.open("/webhook/tail", "")
	f.open("/webhook/tail", "")
	if n := f.tails.Open(); n != 2 {
		t.Fatalf("%d tails", n)
	}
	stop()
	waittest.True(t, "the end of a tail that was disconnected", func() bool { return f.tails.Open() == 1 })
	f.tails.Close()
	waittest.True(t, "the end of all tails", func() bool { return f.tails.Open() == 0 })
	if err := f.tails.enter(&connection{audience: audience{orgID: "org_a"}}, true); errs.KindOf(err) != errs.Unavailable {
		t.Errorf("after Close: %v", err)
	}
	f.tails.mu.Lock()
	defer f.tails.mu.Unlock()
	if len(f.tails.feeds) != 0 {
		t.Error("a feed is left")
	}
}

func TestRevokedTailsEnd(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite))
	var revoked atomic.Bool
	f.tails.Authorize = func(*http.Request) (*auth.Caller, error) {
		if revoked.Load() {
			return nil, errs.New(errs.Unauthorized, "the key was deleted")
		}
		return alice, nil
	}
	_, path := f.hook()
	next, _ := f.open("/webhook/tail", "")
	f.tails.Recheck()
	f.ingest(path, 1, 1)
	next()
	revoked.Store(true)
	f.tails.Recheck()
	waittest.True(t, "the end of the tail", func() bool { return f.tails.Open() == 0 })
}

// TestFeedsDropTheOldestFrames checks what a feed tells connections at each position.
func TestFeedsDropTheOldestFrames(t *testing.T) {
	f := newFeed(&Server{Feeds: budget.NewPool(32<<20, 1<<20)}, audience{orgID: "org_a"}, func() {})
	at := func(n int) eventlog.Position {
		return eventlog.Position{Number: int64(n), Key: fmt.Sprintf("%026d%026d", n%2, n)}
	}
	f.join("")
	f.join(strings.Repeat("0", 26))
	if !f.after("", at(0), 1).behind {
		t.Error("a feed that has not begun has frames")
	}
	f.started = true
	f.wanted()
	for n := 1; n <= 10; n++ {
		f.add([]frame{{at: at(n), text: make([]byte, feedBytes/4)}}, at(n))
	}
	f.add(nil, at(12)) // events that are no longer kept
	if r := f.after("", at(5), 1); !r.behind {
		t.Error("it has frames that it dropped")
	}
	r := f.after("", at(6), feedBytes/2)
	numbers := func(r ready) (all []int64) {
		for _, one := range r.frames {
			all = append(all, one.at.Number)
		}
		return all
	}
	if got := numbers(r); !slices.Equal(got, []int64{7, 8}) || r.end != at(8) {
		t.Errorf("after 6: %v, then at %v", got, r.end)
	}
	r = f.after(strings.Repeat("0", 26), at(8), feedBytes)
	if got := numbers(r); !slices.Equal(got, []int64{10}) || r.end != at(12) {
		t.Errorf("of one webhook after 8: %v, then at %v", got, r.end)
	}
	if r = f.after("", at(13), 1); r.behind || len(r.frames) > 0 || r.end != at(13) {
		t.Errorf("ahead of the feed: %+v", r)
	}
}

package idempotency_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/idempotency"
	"steward/internal/seal"
	"steward/internal/web"
)

// shop is an API with one detached route, POST /order, whose handler commits a transaction of its own.
type shop struct {
	db     *db.DB
	api    *web.API
	now    time.Time
	orders int
	keep   bool
	before func() error // called at the beginning of the handler
	after  func()       // called after its commit
}

func newShop(t *testing.T, d *db.DB) *shop {
	ring, err := seal.NewRing(make([]byte, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{db: d, now: time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC), before: func() error { return nil }, after: func() {}}
	store := &idempotency.Store{DB: d, Ring: ring, Now: func() time.Time { return s.now }}
	guard := func(_ web.Route, _ http.ResponseWriter, r *http.Request) *http.Request {
		return r.WithContext(auth.With(r.Context(), &auth.Caller{OrgID: "org_1", KeyID: "ann"}))
	}
	s.api = web.NewAPI([]web.Route{web.On("POST /order", auth.Self, 201, "Create an order", s.create).Detached()}, guard, store.Serve)
	return s
}

func (s *shop) create(ctx context.Context, in *struct {
	Body struct{ Item string }
},
) (order, error) {
	if err := s.before(); err != nil {
		return order{}, err
	}
	made := order{Token: "secret-" + id.Secret(10)}
	err := s.db.Write(ctx, func(tx *db.Tx) error {
		if _, err := tx.Exec(`INSERT INTO meta (key, value) VALUES ($1, '')`, "order/"+made.Token); err != nil {
			return err
		}
		if !s.keep {
			return nil
		}
		return idempotency.Keep(tx, 201, made)
	})
	s.orders++
	s.after()
	return made, err
}

func (s *shop) post(item string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/order", strings.NewReader(`{"Item":"`+item+`"}`))
	r.Header.Set("Idempotency-Key", "k")
	rec := httptest.NewRecorder()
	defer func() { _ = recover() }()
	s.api.ServeHTTP(rec, r)
	return rec
}

// eachShop runs a test on both databases, with a handler that calls Keep and with one that does not.
func eachShop(t *testing.T, test func(t *testing.T, s *shop)) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for _, keep := range []bool{true, false} {
			s := newShop(t, d)
			s.keep = keep
			test(t, s)
			if err := d.Write(t.Context(), func(tx *db.Tx) error {
				_, err := tx.Exec(`DELETE FROM idempotency`)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestDetachedRepeatGetsTheFirstResponse(t *testing.T) {
	eachShop(t, func(t *testing.T, s *shop) {
		first := s.post("tea")
		again := s.post("tea")
		if first.Code != 201 || again.Code != 201 || again.Body.String() != first.Body.String() || s.orders != 1 {
			t.Fatalf("%d %s, then %d %s; %d orders", first.Code, first.Body, again.Code, again.Body, s.orders)
		}
		if got, want := again.Header().Get("Content-Type"), first.Header().Get("Content-Type"); got != want || want == "" {
			t.Errorf("the repeat has Content-Type %q, want %q", got, want)
		}
		if got := s.post("milk"); got.Code != 422 {
			t.Errorf("another body: %d %s", got.Code, got.Body)
		}
	})
}

func TestDetachedRepeatWaitsForTheFirst(t *testing.T) {
	eachShop(t, func(t *testing.T, s *shop) {
		repeated := make(chan *httptest.ResponseRecorder, 1)
		s.before = func() error {
			go func() { repeated <- s.post("tea") }()
			return nil
		}
		first := s.post("tea")
		if again := <-repeated; again.Body.String() != first.Body.String() || s.orders != 1 {
			t.Fatalf("%s, at the same time %s; %d orders", first.Body, again.Body, s.orders)
		}
	})
}

func TestDetachedRequestThatFailsCanBeRepeated(t *testing.T) {
	eachShop(t, func(t *testing.T, s *shop) {
		s.before = func() error { return errs.New(errs.Conflict, "sold out") }
		if got := s.post("tea"); got.Code != 409 {
			t.Fatalf("%d %s", got.Code, got.Body)
		}
		s.before = func() error { panic("before the write") }
		s.post("tea")
		s.before = func() error { return nil }
		if got := s.post("tea"); got.Code != 201 || s.orders != 1 {
			t.Fatalf("%d %s; %d orders", got.Code, got.Body, s.orders)
		}
	})
}

// TestKeptResponseSurvivesTheProcess: a response is stored with its effects, whatever happens then.
func TestKeptResponseSurvivesTheProcess(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newShop(t, d)
		s.keep = true
		s.after = func() { panic("after the commit") }
		s.post("tea")
		if got := s.post("tea"); got.Code != 201 || s.orders != 1 {
			t.Fatalf("%d %s; %d orders", got.Code, got.Body, s.orders)
		}
	})
}

// TestClaimOfADeadProcessIsTakenOver also has a process that is not dead but slow lose its effects.
func TestClaimOfADeadProcessIsTakenOver(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newShop(t, d)
		s.keep = true
		var other *httptest.ResponseRecorder
		s.before = func() error { // a process that is stopped for longer than any request takes
			s.before = func() error { return nil }
			s.now = s.now.Add(time.Hour)
			other = s.post("tea")
			return nil
		}
		first := s.post("tea")
		again := s.post("tea")
		if first.Code != 409 || other.Code != 201 || again.Body.String() != other.Body.String() {
			t.Fatalf("%s; taken over %s; repeated %s", first.Body, other.Body, again.Body)
		}
		var n int
		row := d.Read(t.Context()).Row(`SELECT count(*) FROM meta WHERE key >= 'order/' AND key < 'order0'`)
		if err := row.Scan(&n); err != nil || n != 1 {
			t.Fatalf("%d orders, %v; want 1", n, err)
		}
	})
}

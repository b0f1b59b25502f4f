package idempotency_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
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

// shop is an API with one route, POST /order, whose handler claims the key, works, and commits a
// transaction in which it stores its response if keep is true.
type shop struct {
	db     *db.DB
	store  *idempotency.Store
	api    *web.API
	now    time.Time
	orders int
	keep   bool
	work   func() error // called after the claim
	after  func()       // called after the commit
}

func newShop(t *testing.T, d *db.DB) *shop {
	ring, err := seal.NewRing(make([]byte, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{db: d, now: time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC), work: func() error { return nil }, after: func() {}}
	s.store = &idempotency.Store{DB: d, Ring: ring, Now: func() time.Time { return s.now }}
	guard := func(_ web.Route, _ http.ResponseWriter, r *http.Request) *http.Request {
		return r.WithContext(auth.With(r.Context(), &auth.Caller{OrgID: "org_1", KeyID: "ann"}))
	}
	s.api = web.NewAPI([]web.Route{web.On("POST /order", "", auth.Self, 201, "Create an order", s.create)}, guard, s.store.Serve)
	return s
}

func (s *shop) create(ctx context.Context, in *struct {
	Body struct{ Item string }
},
) (order, error) {
	if err := idempotency.Claim(ctx); err != nil {
		return order{}, err
	}
	if err := s.work(); err != nil {
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
		return idempotency.Keep(tx, made)
	})
	s.orders++
	s.after()
	return made, err
}

func (s *shop) post(item string) *httptest.ResponseRecorder {
	return s.postUntil(context.Background(), item)
}

// postUntil orders for a client that gives up when ctx ends.
func (s *shop) postUntil(ctx context.Context, item string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, "POST", "/order", strings.NewReader(`{"Item":"`+item+`"}`))
	r.Header.Set("Idempotency-Key", "k")
	rec := httptest.NewRecorder()
	defer func() { _ = recover() }()
	s.api.ServeHTTP(rec, r)
	return rec
}

// eachShop runs a test on both databases, with a handler that calls Keep and with one that does not.
func eachShop(t *testing.T, test func(t *testing.T, s *shop)) {
	for _, keep := range []bool{true, false} {
		dbtest.EachInBubble(t, func(t *testing.T, d *db.DB) {
			s := newShop(t, d)
			s.keep = keep
			test(t, s)
		})
	}
}

func TestRepeatOfAClaimGetsTheFirstResponse(t *testing.T) {
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

func TestRepeatWaitsForAClaim(t *testing.T) {
	eachShop(t, func(t *testing.T, s *shop) {
		repeated := make(chan *httptest.ResponseRecorder, 1)
		s.work = func() error {
			go func() { repeated <- s.post("tea") }()
			return nil
		}
		first := s.post("tea")
		if again := <-repeated; again.Body.String() != first.Body.String() || s.orders != 1 {
			t.Fatalf("%s, at the same time %s; %d orders", first.Body, again.Body, s.orders)
		}
	})
}

func TestClaimedRequestThatFailsCanBeRepeated(t *testing.T) {
	eachShop(t, func(t *testing.T, s *shop) {
		s.work = func() error { return errs.New(errs.Conflict, "sold out") }
		if got := s.post("tea"); got.Code != 409 {
			t.Fatalf("%d %s", got.Code, got.Body)
		}
		s.work = func() error { panic("before the write") }
		s.post("tea")
		s.work = func() error { return nil }
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

// TestClaimOfADeadProcessIsTakenOver also has a process that is not dead but was stopped lose its
// effects. The clocks of the two differ.
func TestClaimOfADeadProcessIsTakenOver(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		eachShop(t, func(t *testing.T, s *shop) {
			s.store.SetTimes(0, time.Hour) // it renews nothing
			var other *httptest.ResponseRecorder
			s.work = func() error {
				s.work = func() error { return nil }
				s.now = s.now.Add(skew)
				other = s.post("tea")
				return nil
			}
			first := s.post("tea")
			again := s.post("tea")
			if first.Code != 201 || other.Code != 201 || first.Body.String() != other.Body.String() || again.Body.String() != other.Body.String() {
				t.Fatalf("%s; taken over %s; repeated %s", first.Body, other.Body, again.Body)
			}
			if !s.keep {
				return // its effects are in no transaction
			}
			var n int
			row := s.db.Read(t.Context()).Row(`SELECT count(*) FROM meta WHERE key >= 'order/' AND key < 'order0'`)
			if err := row.Scan(&n); err != nil || n != 1 {
				t.Fatalf("%d orders, %v; want 1", n, err)
			}
		})
	}
}

// TestImpatientClientsFreeTheClaimOfADeadProcess has clients behind a proxy that cuts requests after five seconds, which
// is sooner than a repeat may take a claim over.
func TestImpatientClientsFreeTheClaimOfADeadProcess(t *testing.T) {
	eachShop(t, func(t *testing.T, s *shop) {
		s.store.SetTimes(0, time.Hour) // it renews nothing
		s.work = func() error {
			s.work = func() error { return nil }
			for range 5 {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				got := s.postUntil(ctx, "tea")
				cancel()
				if got.Code == 201 {
					return errs.New(errs.Conflict, "nobody hears it")
				}
			}
			t.Error("five requests were cut, and the key is not free")
			return nil
		}
		s.post("tea")
	})
}

// TestClaimOfALivingProcessStays has repeats wait for less long than the first request takes.
func TestClaimOfALivingProcessStays(t *testing.T) {
	eachShop(t, func(t *testing.T, s *shop) {
		s.work = func() error {
			var repeats sync.WaitGroup
			for range 3 {
				repeats.Go(func() {
					got := s.post("tea")
					if got.Code != 503 || got.Header().Get("Retry-After") == "" {
						t.Errorf("the repeat got %d %v %s", got.Code, got.Header(), got.Body)
					}
				})
			}
			repeats.Wait()
			return nil
		}
		if got := s.post("tea"); got.Code != 201 || s.orders != 1 {
			t.Fatalf("%d %s; %d orders", got.Code, got.Body, s.orders)
		}
	})
}

// TestFailedClaimFreesItsKey has a repeat and a request with another body wait for a request that fails.
func TestFailedClaimFreesItsKey(t *testing.T) {
	for _, item := range []string{"tea", "milk"} {
		eachShop(t, func(t *testing.T, s *shop) {
			waiting := make(chan *httptest.ResponseRecorder, 1)
			s.work = func() error {
				s.work = func() error { return nil }
				go func() { waiting <- s.post(item) }()
				select {
				case got := <-waiting:
					t.Errorf("%s did not wait: %d %s", item, got.Code, got.Body)
				case <-time.After(time.Second):
				}
				return errs.New(errs.Conflict, "sold out")
			}
			if got := s.post("tea"); got.Code != 409 {
				t.Fatalf("%d %s", got.Code, got.Body)
			}
			if got := <-waiting; got.Code != 201 || s.orders != 1 {
				t.Fatalf("%s: %d %s; %d orders", item, got.Code, got.Body, s.orders)
			}
		})
	}
}

// TestClaimOfADeadProcessIsFreeForAnotherBody has a claim whose process has died before it responded.
func TestClaimOfADeadProcessIsFreeForAnotherBody(t *testing.T) {
	eachShop(t, func(t *testing.T, s *shop) {
		s.store.SetTimes(0, time.Hour) // it renews nothing
		var other *httptest.ResponseRecorder
		s.work = func() error {
			s.work = func() error { return nil }
			other = s.post("milk")
			return errs.New(errs.Conflict, "nobody hears it")
		}
		s.post("tea")
		if other.Code != 201 || s.orders != 1 {
			t.Fatalf("%d %s; %d orders", other.Code, other.Body, s.orders)
		}
		if again := s.post("milk"); again.Body.String() != other.Body.String() {
			t.Fatalf("repeated: %d %s", again.Code, again.Body)
		}
	})
}

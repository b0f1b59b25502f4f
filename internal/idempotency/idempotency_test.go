package idempotency_test

import (
	"bytes"
	"context"
	"errors"
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

// fixture is an API with one route, POST /order, that inserts a row and then optionally fails.
type fixture struct {
	db        *db.DB
	store     *idempotency.Store
	api       *web.API
	face      *web.Face
	now       time.Time
	before    func() // called before the effects begin
	during    func() // called in their transaction
	after     func() // called after it
	fail      error
	panic     bool
	conflicts int // how many more times the database aborts the transaction
}

type order struct {
	Token string `json:"token"`
}

func newFixture(t *testing.T, d *db.DB) *fixture {
	ring, err := seal.NewRing(make([]byte, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	nothing := func() {}
	f := &fixture{db: d, now: time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC), before: nothing, during: nothing, after: nothing}
	f.store = &idempotency.Store{DB: d, Ring: ring, Now: func() time.Time { return f.now }}
	guard := func(_ web.Route, _ http.ResponseWriter, r *http.Request) *http.Request {
		return r.WithContext(auth.With(r.Context(), &auth.Caller{OrgID: "org_1", KeyID: r.Header.Get("Who")}))
	}
	table := []web.Route{
		web.On("POST /order", "", auth.Self, 201, "Create an order", f.create),
		web.On("POST /quote", "", auth.Self, 200, "Compute a price", f.quote),
	}
	f.api = web.NewAPI(table, guard, f.store.Serve)
	return f
}

// item is text. Decoding it calls parsing, if that is set.
type item string

var parsing func()

func (i *item) UnmarshalText(text []byte) error {
	if parsing != nil {
		parsing()
	}
	*i = item(text)
	return nil
}

type orderInput struct {
	Body struct{ Item item }
}

func (f *fixture) create(ctx context.Context, in *orderInput) (order, error) {
	f.before()
	made, err := idempotency.Once(ctx, func(ctx context.Context) (order, error) {
		err := f.db.Write(ctx, func(tx *db.Tx) error {
			if f.conflicts > 0 {
				f.conflicts--
				_, err := tx.Exec("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$")
				return err
			}
			_, err := tx.Exec(`INSERT INTO meta (key, value) VALUES ($1, $2)`, "order/"+string(in.Body.Item)+"/"+f.now.String(), "")
			return err
		})
		f.during()
		if f.panic {
			panic("after the write")
		}
		return order{Token: "secret-" + string(in.Body.Item)}, errors.Join(err, f.fail)
	})
	f.after()
	return made, err
}

// quote returns another value each time, and writes nothing.
func (f *fixture) quote(context.Context, *orderInput) (order, error) {
	f.before()
	return order{Token: id.Secret(10)}, nil
}

func (f *fixture) post(who, key, item string) *httptest.ResponseRecorder {
	return f.postTo("/order", who, key, item)
}

func (f *fixture) postTo(path, who, key, item string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", path, strings.NewReader(`{"Item":"`+item+`"}`))
	r.Header.Set("Who", who)
	r.Header.Set("Idempotency-Key", key)
	if f.face != nil {
		r = r.WithContext(web.WithFace(r.Context(), f.face))
	}
	rec := httptest.NewRecorder()
	defer func() { _ = recover() }()
	f.api.ServeHTTP(rec, r)
	return rec
}

// want posts an order and checks the status of the response and the number of orders there are
// afterwards.
func (f *fixture) want(t *testing.T, status, orders int, who, key, item string) *httptest.ResponseRecorder {
	t.Helper()
	rec := f.post(who, key, item)
	if n := f.orders(t); rec.Code != status || n != orders {
		t.Fatalf("%s with key %q orders %s: status %d, %d orders; want %d, %d: %s",
			who, key, item, rec.Code, n, status, orders, rec.Body)
	}
	return rec
}

func (f *fixture) orders(t *testing.T) (n int) {
	t.Helper()
	row := f.db.Read(t.Context()).Row(`SELECT count(*) FROM meta WHERE key >= 'order/' AND key < 'order0'`)
	if err := row.Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRepeatGetsTheFirstResponse(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		first := f.want(t, 201, 1, "ann", "k", "tea")
		again := f.want(t, 201, 1, "ann", "k", "tea")
		if again.Body.String() != first.Body.String() || !strings.Contains(again.Body.String(), "secret-tea") {
			t.Fatalf("the repeat got %s, want %s", again.Body, first.Body)
		}
		if got, want := again.Header().Get("Content-Type"), first.Header().Get("Content-Type"); got != want || want == "" {
			t.Fatalf("the repeat has Content-Type %q, want %q", got, want)
		}
	})
}

func TestKeyIsScopedToCallerAndBody(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.want(t, 201, 1, "ann", "k", "tea")
		f.want(t, 422, 1, "ann", "k", "milk")
		f.want(t, 201, 2, "bob", "k", "milk")
	})
}

func TestKeyIsScopedToFace(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite))
	bare := f.post("ann", "k", "tea").Body.String()
	f.now = f.now.Add(time.Second)
	f.face = &web.Face{
		Prefix:  "/other",
		Success: func(status int, value any) (int, any) { return status, map[string]any{"wrapped": value} },
	}
	want := `{"wrapped":` + strings.TrimSpace(bare) + `}`
	if got := f.post("ann", "k", "tea").Body.String(); strings.TrimSpace(got) != want {
		t.Errorf("the other face responds with %s, want %s", got, want)
	}
}

func TestKeyMustBePrintableAndShort(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite))
	for _, key := range []string{"", strings.Repeat("k", 256), "k\tk", "kü"} {
		f.want(t, 422, 0, "ann", key, "tea")
	}
	f.want(t, 201, 1, "ann", strings.Repeat("k", 255), "tea")
}

func TestRetriedTransactionRunsTheHandlerAgain(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.Postgres))
	f.conflicts = 2
	f.want(t, 201, 1, "ann", "k", "tea")
	if f.conflicts != 0 {
		t.Fatalf("%d conflicts did not happen", f.conflicts)
	}
}

func TestFailedRequestLeavesNothing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.fail = errs.New(errs.Conflict, "sold out")
		f.want(t, 409, 0, "ann", "k", "tea")
		f.fail = nil
		f.panic = true
		f.post("ann", "k", "tea")
		if n := f.orders(t); n != 0 {
			t.Fatalf("%d orders after a panic", n)
		}
		f.panic = false
		f.want(t, 201, 1, "ann", "k", "tea")
	})
}

func TestResponsesExpire(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.want(t, 201, 1, "ann", "k", "tea")
		f.now = f.now.Add(idempotency.TTL + time.Second)
		f.want(t, 201, 2, "ann", "k", "milk")
	})
}

func TestPurgeDeletesExpiredResponses(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			f.post("ann", key, key)
		}
		f.now = f.now.Add(idempotency.TTL + time.Second)
		f.post("ann", "f", "f")
		if n, err := f.store.Purge(t.Context(), 2); n != 5 || err != nil {
			t.Fatalf("purged %d, %v; want 5", n, err)
		}
	})
}

func TestResponsesAreSealed(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	f := newFixture(t, d)
	f.post("ann", "k", "tea")
	var stored []byte
	if err := d.Read(t.Context()).Row(`SELECT answer FROM idempotency`).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if len(stored) == 0 || bytes.Contains(stored, []byte("secret-tea")) {
		t.Fatalf("stored in plain text: %q", stored)
	}
}

// TestResponseOfAnEarlierVersionIsReplayed: they were stored as one JSON object.
func TestResponseOfAnEarlierVersionIsReplayed(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite))
	f.post("ann", "k", "tea")
	const plain = `{"Header":{"Content-Type":["application/json"]},"Body":"eyJ0b2tlbiI6Im9sZCJ9"}`
	err := f.db.Write(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE idempotency SET answer = $1`, f.store.Ring.Seal("idempotency.response", []byte(plain)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	got := f.want(t, 201, 1, "ann", "k", "tea")
	if got.Body.String() != `{"token":"old"}` || got.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("got %v %s", got.Header(), got.Body)
	}
}

// TestErrorOfAnEarlierVersionIsIgnored: it does not keep its key, whatever the body of the next request.
func TestErrorOfAnEarlierVersionIsIgnored(t *testing.T) {
	for _, status := range []int{303, 409, 500} {
		for _, item := range []string{"tea", "milk"} {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				f := newFixture(t, d)
				f.post("ann", "k", "tea")
				err := f.db.Write(t.Context(), func(tx *db.Tx) error {
					_, err := tx.Exec(`UPDATE idempotency SET status = $1`, status)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				f.now = f.now.Add(time.Second)
				f.want(t, 201, 2, "ann", "k", item)
				f.want(t, 201, 2, "ann", "k", item)
			})
		}
	}
}

// TestFailedRequestFreesItsKeyForAnotherBody fails in the handler, and before it is called.
func TestFailedRequestFreesItsKeyForAnotherBody(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		for i, kind := range []errs.Kind{errs.Invalid, errs.NotFound, errs.Conflict, errs.Unavailable, errs.Internal} {
			f.fail = errs.New(kind, "no")
			if got := f.post("ann", "k", "tea"); got.Code < 400 {
				t.Fatalf("%s: %d %s", kind, got.Code, got.Body)
			}
			f.fail = nil
			f.want(t, 201, i+1, "ann", "k", "milk"+string(kind))
			if err := f.db.Write(t.Context(), func(tx *db.Tx) error {
				_, err := tx.Exec(`DELETE FROM idempotency`)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestNothingRunsInTheTransactionBeforeTheEffects has another write be committed while a request is
// decoded, and while its handler runs until its effects begin: SQLite has one writer for all.
func TestNothingRunsInTheTransactionBeforeTheEffects(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	f := newFixture(t, d)
	writes := 0
	write := func() {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		err := d.Write(ctx, func(tx *db.Tx) error {
			_, err := tx.Exec(`INSERT INTO meta (key, value) VALUES ($1, '')`, id.Secret(20))
			return err
		})
		if err != nil {
			t.Error("another write waits for the request:", err)
		}
		writes++
	}
	parsing = write
	t.Cleanup(func() { parsing = nil })
	f.before = write
	f.want(t, 201, 1, "ann", "k", "tea")
	if got := f.postTo("/quote", "ann", "k", "tea"); got.Code != 200 {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	if writes < 4 {
		t.Errorf("%d writes, want one for each decoding and each handler", writes)
	}
}

func TestResponseWithoutEffectsIsStored(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		first := f.postTo("/quote", "ann", "k", "tea")
		again := f.postTo("/quote", "ann", "k", "tea")
		if first.Code != 200 || again.Code != 200 || again.Body.String() != first.Body.String() {
			t.Fatalf("%d %s, then %d %s", first.Code, first.Body, again.Code, again.Body)
		}
		var during *httptest.ResponseRecorder
		f.before = func() {
			f.before = func() {}
			during = f.postTo("/quote", "ann", "k2", "tea")
		}
		if got := f.postTo("/quote", "ann", "k2", "tea"); got.Code != 200 || got.Body.String() != during.Body.String() {
			t.Fatalf("%s, although another request got %s meanwhile", got.Body, during.Body)
		}
	})
}

// TestResponseIsStoredWithItsEffects: whatever happens after the commit.
func TestResponseIsStoredWithItsEffects(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.after = func() { panic("after the commit") }
		f.post("ann", "k", "tea")
		f.after = func() {}
		f.want(t, 201, 1, "ann", "k", "tea")
	})
}

// TestRepeatOvertakesTheFirst has a repeat be executed between the checks of the first request and its
// effects. The first then gets the response of the repeat, also if its own would have been an error.
func TestRepeatOvertakesTheFirst(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for _, fail := range []error{nil, errs.New(errs.Conflict, "the name is taken")} {
			f := newFixture(t, d)
			key := id.Secret(10)
			var repeat *httptest.ResponseRecorder
			f.before = func() {
				f.before = func() {}
				repeat = f.post("ann", key, key)
				f.fail = fail
			}
			if first := f.post("ann", key, key); repeat.Code != 201 || first.Code != 201 || first.Body.String() != repeat.Body.String() {
				t.Fatalf("%d %s; the repeat %d %s", first.Code, first.Body, repeat.Code, repeat.Body)
			}
		}
	})
}

// TestRepeatWaitsForTheTransactionOfTheFirst also has repeats with another body wait, which then fail.
func TestRepeatWaitsForTheTransactionOfTheFirst(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		repeated := make(chan *httptest.ResponseRecorder, 2)
		var repeats sync.WaitGroup
		repeats.Add(2)
		f.during = func() {
			f.during = func() {}
			f.before = func() { repeats.Done() }
			for _, item := range []string{"tea", "milk"} {
				go func() { repeated <- f.post("ann", "k", item) }()
			}
			repeats.Wait() // they are about to claim the key
		}
		first := f.post("ann", "k", "tea")
		for range 2 {
			got := <-repeated
			if got.Code != 422 && (got.Code != 201 || got.Body.String() != first.Body.String()) {
				t.Errorf("%d %s", got.Code, got.Body)
			}
		}
		if n := f.orders(t); n != 1 {
			t.Errorf("%d orders", n)
		}
	})
}

// TestRepeatDoesNotWaitForLong has the transaction of the first request stay open for longer than the
// repeat waits.
func TestRepeatDoesNotWaitForLong(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.store.SetTimes(time.Hour, time.Hour)
		f.during = func() {
			f.during = func() {}
			f.store.SetTimes(200*time.Millisecond, time.Hour)
			got := f.post("ann", "k", "tea")
			f.store.SetTimes(time.Hour, time.Hour)
			if got.Code != 503 || got.Header().Get("Retry-After") == "" {
				t.Errorf("the repeat got %d %v %s", got.Code, got.Header(), got.Body)
			}
		}
		f.post("ann", "k", "tea")
		f.want(t, 201, 1, "ann", "k", "tea")
	})
}

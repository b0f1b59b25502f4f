package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
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
	f := &fixture{db: d, now: time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)}
	f.store = &idempotency.Store{DB: d, Ring: ring, Now: func() time.Time { return f.now }}
	guard := func(_ web.Route, _ http.ResponseWriter, r *http.Request) *http.Request {
		return r.WithContext(auth.With(r.Context(), &auth.Caller{OrgID: "org_1", KeyID: r.Header.Get("Who")}))
	}
	table := []web.Route{web.On("POST /order", auth.Self, 201, "Create an order", f.create)}
	f.api = web.NewAPI(table, guard, f.store.Serve)
	return f
}

func (f *fixture) create(ctx context.Context, in *struct {
	Body struct{ Item string }
},
) (order, error) {
	err := f.db.Write(ctx, func(tx *db.Tx) error {
		if f.conflicts > 0 {
			f.conflicts--
			_, err := tx.Exec("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$")
			return err
		}
		_, err := tx.Exec(`INSERT INTO meta (key, value) VALUES ($1, $2)`, "order/"+in.Body.Item+"/"+f.now.String(), "")
		return err
	})
	if f.panic {
		panic("after the write")
	}
	return order{Token: "secret-" + in.Body.Item}, errors.Join(err, f.fail)
}

func (f *fixture) post(who, key, item string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/order", strings.NewReader(`{"Item":"`+item+`"}`))
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
	newFixture(t, d).post("ann", "k", "tea")
	var stored []byte
	if err := d.Read(t.Context()).Row(`SELECT answer FROM idempotency`).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if len(stored) == 0 || bytes.Contains(stored, []byte("secret-tea")) {
		t.Fatalf("stored in plain text: %q", stored)
	}
}

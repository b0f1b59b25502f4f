package web_test

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
	"steward/internal/seal"
	"steward/internal/web"
)

// till is an API with one route that writes a row and may then fail.
type till struct {
	d         *db.DB
	fail      error
	panic     bool
	conflicts int // how often the server is still to refuse the transaction
	now       time.Time
	face      *web.Face
	api       *web.API
	idem      *web.Idempotency
}

type sale struct {
	Receipt string `json:"receipt"`
}

func (s *till) sell(ctx context.Context, in *struct {
	Body struct{ Item string }
},
) (sale, error) {
	err := s.d.Write(ctx, func(tx *db.Tx) error {
		if s.conflicts > 0 {
			s.conflicts--
			_, err := tx.Exec("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$")
			return err
		}
		_, err := tx.Exec(`INSERT INTO meta (key, value) VALUES ($1, $2)`, "sale/"+in.Body.Item+"/"+s.now.String(), "sold")
		return err
	})
	if s.panic {
		panic("after the write")
	}
	return sale{Receipt: "secret-" + in.Body.Item}, errors.Join(err, s.fail)
}

func openTill(t *testing.T, d *db.DB) *till {
	ring, err := seal.NewRing(make([]byte, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	s := &till{d: d, now: time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)}
	s.idem = &web.Idempotency{DB: d, Ring: ring, Now: func() time.Time { return s.now }}
	guard := func(_ web.Route, _ http.ResponseWriter, r *http.Request) *http.Request {
		return r.WithContext(auth.With(r.Context(), &auth.Caller{OrgID: "org_1", KeyID: r.Header.Get("Who")}))
	}
	s.api = web.NewAPI([]web.Route{web.On("POST /sale", auth.Self, 201, "Sell", s.sell)}, guard, s.idem)
	return s
}

func (s *till) post(who, key, item string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/sale", strings.NewReader(`{"Item":"`+item+`"}`))
	r.Header.Set("Who", who)
	r.Header.Set("Idempotency-Key", key)
	if s.face != nil {
		r = r.WithContext(web.WithFace(r.Context(), s.face))
	}
	rec := httptest.NewRecorder()
	defer func() { recover() }()
	s.api.ServeHTTP(rec, r)
	return rec
}

func (s *till) sales(t *testing.T) (n int) {
	if err := s.d.Read(t.Context()).Row(`SELECT count(*) FROM meta WHERE key >= 'sale/' AND key < 'sale0'`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestIdempotencyScope(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := openTill(t, d)
		if rec := s.post("ann", "k", "tea"); rec.Code != 201 || s.sales(t) != 1 {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
		if rec := s.post("ann", "k", "tea"); rec.Code != 201 || s.sales(t) != 1 || !strings.Contains(rec.Body.String(), "secret-tea") {
			t.Fatalf("the repeat: %d %s, %d sales", rec.Code, rec.Body, s.sales(t))
		}
		if rec := s.post("ann", "k", "milk"); rec.Code != 422 || s.sales(t) != 1 {
			t.Fatalf("another body: %d %s", rec.Code, rec.Body)
		}
		if rec := s.post("bob", "k", "milk"); rec.Code != 201 || s.sales(t) != 2 {
			t.Fatalf("another caller: %d %s", rec.Code, rec.Body)
		}
		for _, key := range []string{"", strings.Repeat("k", 256), "k\tk", "kü"} {
			if rec := s.post("ann", key, "milk"); rec.Code != 422 || s.sales(t) != 2 {
				t.Fatalf("the key %q: %d", key, rec.Code)
			}
		}
		if rec := s.post("ann", strings.Repeat("k", 255), "bread"); rec.Code != 201 || s.sales(t) != 3 {
			t.Fatalf("the longest key: %d %s", rec.Code, rec.Body)
		}
	})
}

// TestIdempotencyOfFaces: the same key on the other face is another request, since its answer has another form.
func TestIdempotencyOfFaces(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	s := openTill(t, d)
	other := &web.Face{
		Prefix:  "/other",
		Success: func(status int, value any) (int, any) { return status, map[string]any{"wrapped": value} },
	}
	bare := s.post("ann", "k", "tea").Body.String()
	s.now = s.now.Add(time.Second)
	s.face = other
	if wrapped := s.post("ann", "k", "tea").Body.String(); strings.TrimSpace(wrapped) != `{"wrapped":`+strings.TrimSpace(bare)+`}` {
		t.Errorf("the other face answers %s", wrapped)
	}
}

// TestIdempotencyOfAServersRetry: a transaction that the server has run again gives the handler the same request again.
func TestIdempotencyOfAServersRetry(t *testing.T) {
	s := openTill(t, dbtest.Open(t, db.Postgres))
	s.conflicts = 2
	if rec := s.post("ann", "k", "tea"); rec.Code != 201 || s.sales(t) != 1 || s.conflicts != 0 {
		t.Fatalf("%d %s, %d sales", rec.Code, rec.Body, s.sales(t))
	}
}

// TestIdempotencyRollsBackWithTheAnswer: when the request fails after its write, neither the write nor the answer stays.
func TestIdempotencyRollsBackWithTheAnswer(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := openTill(t, d)
		s.fail = errs.New(errs.Conflict, "sold out")
		if rec := s.post("ann", "k", "tea"); rec.Code != 409 || s.sales(t) != 0 {
			t.Fatalf("%d, %d sales", rec.Code, s.sales(t))
		}
		s.fail, s.panic = nil, true
		if s.post("ann", "k", "tea"); s.sales(t) != 0 {
			t.Fatalf("%d sales after a panic", s.sales(t))
		}
		s.panic = false
		if rec := s.post("ann", "k", "tea"); rec.Code != 201 || s.sales(t) != 1 {
			t.Fatalf("the next try: %d, %d sales", rec.Code, s.sales(t))
		}
	})
}

func TestIdempotencyForgetsAfterADay(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := openTill(t, d)
		s.post("ann", "k", "tea")
		s.now = s.now.Add(web.Keep + time.Second)
		if rec := s.post("ann", "k", "milk"); rec.Code != 201 || s.sales(t) != 2 {
			t.Fatalf("after a day: %d, %d sales", rec.Code, s.sales(t))
		}
		for _, key := range []string{"l", "m", "n", "o"} {
			s.post("ann", key, key)
		}
		s.now = s.now.Add(web.Keep + time.Second)
		if n, err := s.idem.Purge(t.Context(), 2); n != 5 || err != nil {
			t.Fatalf("purged %d, %v", n, err)
		}
	})
}

// TestIdempotencySealsAnswers: a stored answer does not show the secret in it.
func TestIdempotencySealsAnswers(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	s := openTill(t, d)
	s.post("ann", "k", "tea")
	var stored []byte
	if err := d.Read(t.Context()).Row(`SELECT answer FROM idempotency`).Scan(&stored); err != nil || len(stored) == 0 {
		t.Fatal(err)
	}
	if bytes.Contains(stored, []byte("secret-tea")) {
		t.Fatal("the answer is stored in clear")
	}
}

package audit_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/page"
	"steward/internal/web"
)

func newStore(d *db.DB) *audit.Store {
	return &audit.Store{DB: d, Now: time.Now}
}

// requested returns the context of a request.
func requested(t *testing.T) (ctx context.Context) {
	t.Helper()
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { ctx = r.Context() })
	web.Observe(slog.New(slog.DiscardHandler), nil, handler).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	return ctx
}

// entries returns the log of the organization org_1.
func entries(t *testing.T, s *audit.Store) []audit.Entry {
	t.Helper()
	result, err := s.List(t.Context(), "org_1", audit.Filter{}, page.Paging{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	return result.Items
}

func TestEntryExistsExactlyIfTheChangeDoes(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(d)
		ctx := auth.With(requested(t), &auth.Caller{OrgID: "org_1", UserID: "usr_1", KeyID: "key_1"})
		failed := errors.New("the change fails")
		for _, result := range []error{nil, failed} {
			err := d.Write(ctx, func(tx *db.Tx) error {
				if err := s.Record(tx, "thing.create", "thing_1"); err != nil {
					return err
				}
				return result
			})
			if !errors.Is(err, result) {
				t.Fatal(err)
			}
		}
		got := entries(t, s)
		if len(got) != 1 || *got[0].UserID != "usr_1" || *got[0].KeyID != "key_1" || got[0].ClientID != nil || got[0].Action != "thing.create" ||
			got[0].Target != "thing_1" || got[0].RequestID != web.Request(ctx).ID || got[0].RequestID == "" || got[0].RemoteAddr != "192.0.2.1" {
			t.Errorf("the log is %+v", got)
		}
	})
}

func TestEntryNamesTheClient(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(d)
		for _, caller := range []*auth.Caller{
			{OrgID: "org_1", UserID: "usr_1", ClientID: "oac_1"}, // an access token of a user
			{OrgID: "org_1", ClientID: "oac_1"},                  // of the client itself
		} {
			err := d.Write(auth.With(t.Context(), caller), func(tx *db.Tx) error {
				return s.Record(tx, "thing.create", "thing_1")
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		got := entries(t, s)
		users := 0
		for _, e := range got {
			if e.ClientID == nil || *e.ClientID != "oac_1" || e.KeyID != nil {
				t.Errorf("got %+v", e)
			}
			if e.UserID != nil {
				users++
			}
		}
		if len(got) != 2 || users != 1 {
			t.Errorf("the log is %+v", got)
		}
	})
}

func TestNothingIsRecordedWithoutACaller(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(d)
		err := d.Write(t.Context(), func(tx *db.Tx) error { return s.Record(tx, "thing.create", "thing_1") })
		if err != nil {
			t.Fatal(err)
		}
		if got := entries(t, s); len(got) != 0 {
			t.Errorf("the log is %+v", got)
		}
	})
}

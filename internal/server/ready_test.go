package server

import (
	"net/http/httptest"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/idempotency"
	"steward/internal/status"
)

// TestServerThatStopsIsNotReady also asks as HAProxy does, which lets requests finish on a server that answers 404.
func TestServerThatStopsIsNotReady(t *testing.T) {
	s := &Server{Idempotency: &idempotency.Store{DB: dbtest.Open(t, db.SQLite)}, Status: &status.Handler{}}
	want := func(path string, code int) {
		t.Helper()
		rec := httptest.NewRecorder()
		s.ready(rec, httptest.NewRequest("GET", path, nil))
		if rec.Code != code {
			t.Errorf("%s: got %d %s, want %d", path, rec.Code, rec.Body, code)
		}
	}
	want("/readyz", 200)
	s.Stopping.Store(true)
	want("/readyz", 503)
	want("/readyz?draining=404", 404)
}

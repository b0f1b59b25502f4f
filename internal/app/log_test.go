package app

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/app/config"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/server"
	"steward/internal/web"
)

var servedRequest = web.Served{
	Meta:   &web.Meta{ID: "req_1", Route: "GET /cli/apikey/{id}", Who: "key_1", OrgID: "org_1", Resource: "key_2", RemoteAddr: "127.0.0.1"},
	Method: "GET", Status: 200, Bytes: 204, Took: 1500 * time.Microsecond,
}

func TestRequestsAreLogged(t *testing.T) {
	var out bytes.Buffer
	logRequest(newLog(config.Config{LogFormat: config.LogText}, &out), servedRequest)
	_, line, _ := strings.Cut(out.String(), " ")
	want := `level=INFO msg=request request_id=req_1 method=GET route="GET /cli/apikey/{id}" status=200 bytes=204 ` +
		"duration_ms=1.5 caller=key_1 organization=org_1 resource=key_2 remote_addr=127.0.0.1\n"
	if line != want {
		t.Errorf("logged %s, want %s", line, want)
	}
}

// TestSlowWritesAreLoggedAndCounted holds the writer by a request, and by something else.
func TestSlowWritesAreLoggedAndCounted(t *testing.T) {
	var out bytes.Buffer
	counted := map[string]int{}
	log := newLog(config.Config{LogFormat: config.LogText}, &out)
	o := dbtest.Options(t, db.SQLite)
	o.Observer.SlowWrite = slowWrites(log, func(route string) { counted[route]++ })
	synctest.Test(t, func(t *testing.T) {
		d, err := db.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		slow := func(ctx context.Context) {
			err := d.Write(ctx, func(*db.Tx) error {
				time.Sleep(150 * time.Millisecond)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		served := web.Named("POST /slow", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { slow(r.Context()) }))
		r := httptest.NewRequest("POST", "/slow", nil)
		r.Header.Set("X-Request-Id", "req_1")
		web.Observe(log, nil, served).ServeHTTP(httptest.NewRecorder(), r)
		slow(t.Context())
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	_, line, _ := strings.Cut(out.String(), " ")
	want := `level=WARN msg="a write held the database, and others waited for it" request_id=req_1 route="POST /slow" duration_ms=150` + "\n"
	if !strings.HasPrefix(line, want) || counted["POST /slow"] != 1 || counted["other"] != 1 {
		t.Errorf("counted %v, logged %s, want %s", counted, line, want)
	}
}

func TestLogTimesAreInUTC(t *testing.T) {
	var out bytes.Buffer
	newLog(config.Config{LogFormat: config.LogJSON}, &out).Info("x")
	var line struct{ Time string }
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || !strings.HasSuffix(line.Time, "Z") {
		t.Errorf("logged %s: %v", out.String(), err)
	}
}

func TestFrequentRequestsAreLoggedForDebugging(t *testing.T) {
	for _, test := range []struct {
		level  slog.Level
		status int
		logged bool
	}{
		{slog.LevelInfo, http.StatusAccepted, false},
		{slog.LevelInfo, http.StatusNotFound, true},
		{slog.LevelDebug, http.StatusAccepted, true},
	} {
		for _, route := range []string{server.IngestRoute, "s3.PutObject"} {
			var out bytes.Buffer
			frequent := web.Served{Meta: &web.Meta{Route: route}, Method: "POST", Status: test.status}
			logRequest(newLog(config.Config{LogLevel: test.level}, &out), frequent)
			if logged := out.Len() > 0; logged != test.logged {
				t.Errorf("%s, status %d at level %s: logged %t", route, test.status, test.level, logged)
			}
		}
	}
}

func TestRequestsAreNotLoggedAboveInfo(t *testing.T) {
	var out bytes.Buffer
	logRequest(newLog(config.Config{LogLevel: slog.LevelWarn}, &out), servedRequest)
	if out.Len() > 0 {
		t.Errorf("logged %s", out.String())
	}
}

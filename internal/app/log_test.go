package app

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"steward/internal/app/config"
	"steward/internal/web"
)

var servedRequest = web.Served{
	Meta:   &web.Meta{ID: "req_1", Route: "GET /cli/apikey/{id}", Who: "key_1", RemoteAddr: "127.0.0.1"},
	Method: "GET", Status: 200, Bytes: 204, Took: 1500 * time.Microsecond,
}

func TestRequestsAreLogged(t *testing.T) {
	var out bytes.Buffer
	logRequest(newLog(config.Config{LogFormat: config.LogText}, &out), servedRequest)
	_, line, _ := strings.Cut(out.String(), " ")
	want := `level=INFO msg=request request_id=req_1 method=GET route="GET /cli/apikey/{id}" status=200 bytes=204 ` +
		"duration_ms=1.5 caller=key_1 remote_addr=127.0.0.1\n"
	if line != want {
		t.Errorf("logged %s, want %s", line, want)
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

func TestRequestsAreNotLoggedAboveInfo(t *testing.T) {
	var out bytes.Buffer
	logRequest(newLog(config.Config{LogLevel: slog.LevelWarn}, &out), servedRequest)
	if out.Len() > 0 {
		t.Errorf("logged %s", out.String())
	}
}

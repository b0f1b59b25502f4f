package app

import (
	"bufio"
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"steward/internal/web"
)

// TestRequestLine holds the hand-made line against the one that slog would write of the same request.
func TestRequestLine(t *testing.T) {
	for _, s := range []web.Served{
		{
			Meta:   &web.Meta{ID: "req_01m7esh6n0ayrzyv1m3tdrpswx", Route: "GET /cli/apikey/{id}", Who: "key_1", RemoteAddr: "127.0.0.1"},
			Method: "GET", Status: 200, Bytes: 204, At: time.UnixMilli(1_794_000_000_123), Took: 123456 * time.Nanosecond,
		},
		{
			Meta:   &web.Meta{ID: "a.b_c:d-e", Route: "unknown", RemoteAddr: "fe80::1%eth0"},
			Method: "X!#$%&'*+-.^_`|~", Status: 404, At: time.UnixMilli(999), Took: 3 * time.Second,
		},
	} {
		for format, bare := range map[LogFormat]func(string) string{
			LogJSON: func(line string) string { return line },
			LogText: func(line string) string { return strings.ReplaceAll(line, `"`, "") }, // slog quotes only where it must
		} {
			if got, want := bare(written(format, s)), bare(slogged(t, format, s)); got != want {
				t.Errorf("wrote %s and not %s", got, want)
			}
		}
	}
}

func written(format LogFormat, s web.Served) string {
	var out bytes.Buffer
	late := &lateWriter{out: bufio.NewWriter(&out), waiting: true}
	requestLog{out: late, format: format}.write(s)
	late.flush()
	return out.String()
}

func slogged(t *testing.T, format LogFormat, s web.Served) string {
	var out bytes.Buffer
	log, late := newLog(Config{LogFormat: format}, &out)
	r := slog.NewRecord(s.At, slog.LevelInfo, "request", 0)
	r.Add("request_id", s.ID, "method", s.Method, "route", s.Route, "status", s.Status, "bytes", s.Bytes, "took", s.Took, "who", s.Who,
		"from", s.RemoteAddr)
	log.Handler().Handle(t.Context(), r)
	late.flush()
	return out.String()
}

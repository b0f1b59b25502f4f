package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steward/internal/app/config"
	"steward/internal/app/tracing"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/web"
)

// discard is a response that costs nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// BenchmarkRequest measures what a management request costs beyond net/http.
func BenchmarkRequest(b *testing.B) {
	log := newLog(config.Config{LogFormat: config.LogText}, io.Discard)
	for _, path := range []string{"/cli/region", "/cli/apikey/", "/cli/auth/user"} {
		b.Run(path[1:], func(b *testing.B) {
			f := newFixture(b, dbtest.Open(b, db.SQLite), func(s web.Served) { logRequest(log, s) })
			id := ""
			if path == "/cli/apikey/" {
				id = field(f.send("owner", "POST", "/cli/apikey", `{"name":"k"}`), "id")
			}
			req, err := http.NewRequest(http.MethodGet, path+id, http.NoBody)
			if err != nil {
				b.Fatal(err)
			}
			req.RemoteAddr = "127.0.0.1:1234"
			req.Header.Set("Authorization", "Bearer "+f.keys["owner"])
			b.ReportAllocs()
			for b.Loop() {
				f.handler.ServeHTTP(discard{http.Header{}}, req)
			}
		})
	}
}

// BenchmarkIngest measures an event that is accepted, without traces, and with all of them to a collector that is
// gone.
func BenchmarkIngest(b *testing.B) {
	for _, traced := range []bool{false, true} {
		b.Run(fmt.Sprintf("traced=%t", traced), func(b *testing.B) {
			o := dbtest.Options(b, db.SQLite)
			var tracer *tracing.Tracer
			if traced {
				var err error
				tracer, err = tracing.Start(b.Context(), tracing.Options{
					Endpoint: "http://127.0.0.1:1", Ratio: 1, Log: slog.New(slog.DiscardHandler),
				})
				if err != nil {
					b.Fatal(err)
				}
				defer tracer.Stop()
				o.Observer.Begin = tracer.Database
			}
			d, err := db.Open(b.Context(), o)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { d.Close() })
			f := newFixture(b, d, func(web.Served) {})
			if traced {
				f.parts.webhooks.sender.Delivered = func(context.Context, string, time.Duration) {}
				f.parts.trace(tracer)
				f.handler = f.server.Handler()
			}
			url := field(f.send("owner", "POST", "/webhook/create", `{"name":"k"}`), "url")
			path := url[strings.Index(url, "/in/"):]
			b.ReportAllocs()
			for b.Loop() {
				req := httptest.NewRequest("POST", path, strings.NewReader(`{"order":1}`))
				rec := httptest.NewRecorder()
				f.handler.ServeHTTP(rec, req)
				if rec.Code != http.StatusOK {
					b.Fatal(rec.Code, rec.Body)
				}
			}
		})
	}
}

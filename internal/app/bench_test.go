package app

import (
	"io"
	"net/http"
	"testing"

	"steward/internal/app/config"
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

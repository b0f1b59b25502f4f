package app

import (
	"bufio"
	"io"
	"net/http"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// nowhere is a response that costs nothing, so that the benchmark shows our own part of a request.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n nowhere) WriteHeader(int)             {}

// BenchmarkRequest is what a management request costs beyond net/http.
func BenchmarkRequest(b *testing.B) {
	for _, path := range []string{"/cli/region", "/cli/apikey/", "/cli/auth/user"} {
		b.Run(path[1:], func(b *testing.B) {
			h := build(b, dbtest.Open(b, db.SQLite), requestLog{out: &lateWriter{out: bufio.NewWriter(io.Discard)}}.write)
			id := ""
			if path == "/cli/apikey/" {
				id = field(h.send("owner", "POST", "/cli/apikey", `{"name":"k"}`), "id")
			}
			req, err := http.NewRequest(http.MethodGet, path+id, http.NoBody)
			if err != nil {
				b.Fatal(err)
			}
			req.RemoteAddr = "127.0.0.1:1234"
			req.Header.Set("Authorization", "Bearer "+h.keys["owner"])
			b.ReportAllocs()
			for b.Loop() {
				h.handler.ServeHTTP(nowhere{http.Header{}}, req)
			}
		})
	}
}

package console

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkCaller is what a request of the console costs before it is served: its cookie is opened,
// and session and role are found in memory. Compare with BenchmarkShell and with GET /cli/region as
// a whole.
func BenchmarkCaller(b *testing.B) {
	f := newFixture(b)
	r := f.request(b, "GET", "/console/api/cli/region")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	h := http.Header{}
	for b.Loop() {
		if _, err := f.Caller(h, r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkShell(b *testing.B) {
	f := newFixture(b)
	r := httptest.NewRequest("GET", "/console/webhooks", nil)
	r.Header.Set("Accept-Encoding", "gzip, br")
	for b.Loop() {
		f.send(r)
	}
}

// BenchmarkFirstRequest is the first request of the largest file, which compresses it.
func BenchmarkFirstRequest(b *testing.B) {
	var largest string
	size := 0
	for path, file := range newFiles("").byPath {
		if n := len(file.bodies[""]().bytes); n > size {
			largest, size = path, n
		}
	}
	for _, e := range encodings {
		b.Run(e.name, func(b *testing.B) {
			r := httptest.NewRequest("GET", largest, nil)
			r.Header.Set("Accept-Encoding", e.name)
			for b.Loop() {
				rec := httptest.NewRecorder()
				newFiles("").ServeHTTP(rec, r)
				b.ReportMetric(float64(rec.Body.Len()), "bytes")
			}
		})
	}
}

// BenchmarkStart is what the files cost when the server starts.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		newFiles("")
	}
}

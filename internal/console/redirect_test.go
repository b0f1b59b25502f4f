package console

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestPagesAtAnotherLoopbackNameLeadToTheBaseURL(t *testing.T) {
	const local = "http://localhost:8080"
	for _, c := range []struct{ base, host, path, want string }{
		{local, "127.0.0.1:8080", "/console/", local + "/console/"},
		{local, "127.0.0.1:8080", "/console", local + "/console"},
		{local, "[::1]:8080", "/console/webhooks/wh_1?tab=receipts&q=a%20b", local + "/console/webhooks/wh_1?tab=receipts&q=a%20b"},
		{local, "127.1.2.3:8080", "/console/setup", local + "/console/setup"},
		{local, "127.0.0.1:8080", "/console/sign-in?return=/console/keys", local + "/console/sign-in?return=/console/keys"},
		{"http://127.0.0.1:8080", "localhost:8080", "/console/", "http://127.0.0.1:8080/console/"},
		{"https://localhost", "127.0.0.1", "/console/", "https://localhost/console/"},

		{local, "localhost:8080", "/console/", ""},
		{local, "127.0.0.1:9090", "/console/", ""}, // the end of a tunnel, perhaps
		{local, "127.0.0.1", "/console/", ""},
		{local, "192.0.2.1:8080", "/console/", ""},
		{local, "evil.test:8080", "/console/", ""},
		{local, "127.0.0.1:8080", "/console/api/cli/region", ""},
		{local, "127.0.0.1:8080", "/console/assets/index.js", ""},
		{local, "127.0.0.1:8080", "/cli/region", ""},
		{local, "127.0.0.1:8080", "/consolex", ""},
		{local, "127.0.0.1:8080", "/console//evil.test", ""},
		{"https://steward.example.com", "127.0.0.1", "/console/", ""},
	} {
		h := (&Console{BaseURL: c.base}).AtBaseURL(http.NotFoundHandler())
		for _, method := range []string{"GET", "HEAD", "POST"} {
			want := c.want
			if method == "POST" {
				want = ""
			}
			r := httptest.NewRequest(method, c.path, nil)
			r.Host = c.host
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			if got := rec.Header().Get("Location"); got != want || (want == "") != (rec.Code == http.StatusNotFound) {
				t.Errorf("%s %s at %s with the base URL %s: %d %q, want %q", method, c.path, c.host, c.base, rec.Code, got, want)
			}
		}
	}
}

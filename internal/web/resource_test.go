package web_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"steward/internal/id"
	"steward/internal/web"
)

// TestResourceIsTheLastIdentifierOfThePath and never other text of it.
func TestResourceIsTheLastIdentifierOfThePath(t *testing.T) {
	hook, receipt := id.New(id.Webhook), id.New(id.Receipt)
	for _, test := range []struct{ pattern, path, want string }{
		{"GET /a/{webhookId}/{receiptId}", "/a/" + hook + "/" + receipt, receipt},
		{"GET /in/{id}/{token}", "/in/" + hook + "/secret", hook},
		{"GET /a/{id}", "/a/sk_live_0123456789ABCDEF", ""},
		{"GET /a/{rest...}", "/a/b/c", ""},
		{"GET /db/{id}/", "/db/" + hook + "/v2/pipeline", hook},
		{"GET /a/{$}", "/a/", ""},
	} {
		mux := http.NewServeMux()
		mux.Handle(test.pattern, web.Named(test.pattern, http.NotFoundHandler()))
		var got string
		done := func(s web.Served) { got = s.Resource }
		r := httptest.NewRequest("GET", test.path, nil)
		web.Observe(slog.New(slog.DiscardHandler), done, mux).ServeHTTP(httptest.NewRecorder(), r)
		if got != test.want {
			t.Errorf("%s %s: resource %q, want %q", test.pattern, test.path, got, test.want)
		}
	}
}

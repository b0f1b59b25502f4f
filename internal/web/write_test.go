package web_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/sdk"
	"steward/internal/web"
)

type row struct{ version int64 }

func (r row) ETag() string { return page.ETag(r.version) }

func TestCurrentETagIsNotModified(t *testing.T) {
	for _, test := range []struct {
		method, condition string
		status            int
	}{
		{"GET", `"7"`, 304},
		{"HEAD", `"7"`, 304},
		{"PUT", `"7"`, 200},
		{"GET", `"6"`, 200},
		{"GET", "", 200},
	} {
		r := httptest.NewRequest(test.method, "/", nil)
		r.Header.Set("If-None-Match", test.condition)
		rec := httptest.NewRecorder()
		web.Write(rec, r, 200, row{7})
		if rec.Code != test.status || rec.Header().Get("ETag") != `"7"` {
			t.Errorf("%s with If-None-Match: %s: status %d, ETag %s", test.method, test.condition, rec.Code, rec.Header().Get("ETag"))
		}
	}
}

func TestPageIsAnArrayWithHeaders(t *testing.T) {
	rec := httptest.NewRecorder()
	p := page.New([]int{1, 2, 3}, 5, page.Paging{Limit: 2}, func(i int) page.Cursor { return page.NewCursor(int64(i)) })
	web.Write(rec, httptest.NewRequest("GET", "/list?limit=2", nil), 200, p)
	if rec.Body.String() != "[1,2]\n" || rec.Header().Get("X-Total-Count") != "5" || !strings.Contains(rec.Header().Get("Link"), "/list?") {
		t.Errorf("got %s with %v", rec.Body, rec.Header())
	}
}

// TestRequestID checks that a client's X-Request-Id is used if it is fit for headers and logs.
func TestRequestID(t *testing.T) {
	h := web.Observe(slog.New(slog.DiscardHandler), nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		web.Fail(w, r, errs.New(errs.NotFound, "nothing"))
	}))
	for sent, accepted := range map[string]bool{
		"":                       false,
		"a-1:b_c.D":              true,
		strings.Repeat("x", 128): true,
		strings.Repeat("x", 129): false,
		"a b":                    false,
		"a\tb":                   false,
		`a"b`:                    false,
		"ü":                      false,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Request-Id", sent)
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		var problem web.Problem
		if err := json.Unmarshal(rec.Body.Bytes(), &problem); err != nil {
			t.Fatal(err)
		}
		got := rec.Header().Get("X-Request-Id")
		if (got == sent) != accepted || !accepted && !strings.HasPrefix(got, "req_") || problem.RequestID != got {
			t.Errorf("%q: the header is %q, the error has %q", sent, got, problem.RequestID)
		}
	}
}

// internalErrors are handlers that fail in ways that must not show in the response.
var internalErrors = map[string]http.HandlerFunc{
	"panic": func(http.ResponseWriter, *http.Request) { panic("secret-state") },
	"value that cannot be encoded": func(w http.ResponseWriter, r *http.Request) {
		web.Write(w, r, 200, map[string]any{"secret-state": math.NaN()})
	},
	"other error": func(w http.ResponseWriter, r *http.Request) { web.Fail(w, r, errors.New("secret-state")) },
	"error with a cause": func(w http.ResponseWriter, r *http.Request) {
		web.Fail(w, r, &errs.Error{Kind: errs.Internal, Message: "internal error", Cause: errors.New("secret-state")})
	},
}

func TestInternalErrorsRevealNothing(t *testing.T) {
	for name, handler := range internalErrors {
		for path, h := range map[string]http.Handler{"/x": handler, "/sdk/x": sdk.Mount(handler)} {
			rec := httptest.NewRecorder()
			web.Observe(slog.New(slog.DiscardHandler), nil, h).ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
			var body struct{ Code string }
			if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil {
				t.Errorf("%s at %s: %v", name, path, err)
			}
			if rec.Code != 500 || body.Code != "internal" || strings.Contains(rec.Body.String(), "secret-state") {
				t.Errorf("%s at %s: %d %s", name, path, rec.Code, rec.Body)
			}
			if !strings.HasSuffix(rec.Header().Get("Content-Type"), "json") || rec.Header().Get("X-Request-Id") == "" {
				t.Errorf("%s at %s: headers %v", name, path, rec.Header())
			}
		}
	}
}

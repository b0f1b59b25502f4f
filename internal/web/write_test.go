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

func TestConditions(t *testing.T) {
	for condition, want := range map[string]struct{ write, read bool }{
		"":                {true, false},
		"*":               {true, true},
		`"7"`:             {true, true},
		`"6"`:             {false, false},
		`"6", "7"`:        {true, true},
		`"6","77"`:        {false, false},
		`W/"7"`:           {false, true},
		`"1", W/"7"`:      {false, true},
		`7`:               {false, false},
		`"7`:              {false, false},
		` "7" `:           {true, true},
		`"6", "8", "777"`: {false, false},
	} {
		err := page.IfMatch{IfMatch: condition}.Check(row{7})
		if (err == nil) != want.write || err != nil && errs.KindOf(err) != errs.PreconditionFailed {
			t.Errorf("If-Match: %s gives %v", condition, err)
		}
		for _, method := range []string{"GET", "HEAD", "PUT"} {
			r := httptest.NewRequest(method, "/", nil)
			r.Header.Set("If-None-Match", condition)
			rec := httptest.NewRecorder()
			web.Write(rec, r, 200, row{7})
			if unchanged := rec.Code == 304; unchanged != (want.read && method != "PUT") || rec.Header().Get("ETag") != `"7"` {
				t.Errorf("%s with If-None-Match: %s gives %d", method, condition, rec.Code)
			}
		}
	}
}

// TestRequestID: the caller's is taken if it can stand in a header and a log line, else one is made.
func TestRequestID(t *testing.T) {
	h := web.Observe(slog.New(slog.DiscardHandler), nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		web.Fail(w, r, errs.New(errs.NotFound, "nothing"))
	}))
	for given, sane := range map[string]bool{
		"": false, "a-1:b_c.D": true, strings.Repeat("x", 128): true, strings.Repeat("x", 129): false, "a b": false, "a\tb": false, `a"b`: false, "ü": false,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Request-Id", given)
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		var problem web.Problem
		err := json.Unmarshal(rec.Body.Bytes(), &problem)
		got := rec.Header().Get("X-Request-Id")
		if err != nil || (got == given) != sane || !sane && !strings.HasPrefix(got, "req_") || problem.RequestID != got {
			t.Errorf("%q: the header says %q, the error %q", given, got, problem.RequestID)
		}
	}
}

// TestFaultsOfOursAreProblems: panics and values that cannot be encoded end as a problem that tells nothing, on both faces.
func TestFaultsOfOursAreProblems(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	for name, handler := range map[string]http.HandlerFunc{
		"panic": func(http.ResponseWriter, *http.Request) { panic("secret-state") },
		"unencoded": func(w http.ResponseWriter, r *http.Request) {
			web.Write(w, r, 200, map[string]any{"secret-state": math.NaN()})
		},
		"any error": func(w http.ResponseWriter, r *http.Request) { web.Fail(w, r, errors.New("secret-state")) },
		"with cause": func(w http.ResponseWriter, r *http.Request) {
			web.Fail(w, r, &errs.Error{Kind: errs.Internal, Message: "internal error", Cause: errors.New("secret-state")})
		},
	} {
		for face, h := range map[string]http.Handler{"/x": handler, "/sdk/x": sdk.Mount(handler)} {
			rec := httptest.NewRecorder()
			web.Observe(quiet, nil, h).ServeHTTP(rec, httptest.NewRequest("GET", face, nil))
			var body struct{ Code string }
			err := json.Unmarshal(rec.Body.Bytes(), &body)
			if rec.Code != 500 || err != nil || body.Code != "internal" || strings.Contains(rec.Body.String(), "secret-state") ||
				!strings.HasSuffix(rec.Header().Get("Content-Type"), "json") || rec.Header().Get("X-Request-Id") == "" {
				t.Errorf("%s at %s: %d %v %s", name, face, rec.Code, rec.Header(), rec.Body)
			}
		}
	}
}

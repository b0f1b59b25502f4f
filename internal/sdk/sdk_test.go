package sdk_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"steward/internal/encode"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/sdk"
	"steward/internal/web"
)

// serve returns the response of handler to a request under the prefix.
func serve(handler http.HandlerFunc, method, path string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	sdk.Mount(handler).ServeHTTP(rec, httptest.NewRequest(method, sdk.Prefix+path, nil))
	return rec
}

type shout struct{ Text string }

func (s shout) AppendJSON(to []byte) ([]byte, error) { return encode.String(to, s.Text+"!"), nil }

// special has another form for SDKs.
type special struct{ Text string }

func (s special) SDK() any { return map[string]string{"special": s.Text} }

func TestValuesAreEnveloped(t *testing.T) {
	for want, value := range map[string]any{
		`{"success":true}`:                                      web.None{},
		`{"success":true,"data":{"Text":["<"]}}`:                struct{ Text []string }{[]string{"<"}},
		`{"success":true,"data":{"special":"a"}}`:               special{"a"},
		`{"success":true,"data":[]}`:                            page.Page[shout]{},
		`{"success":true,"data":["a!","<b>!"]}`:                 page.Page[shout]{Items: []shout{{"a"}, {"<b>"}}},
		`{"success":true,"data":["a!"]}`:                        struct{ page.Page[shout] }{page.Page[shout]{Items: []shout{{"a"}}}},
		`{"success":true,"data":[{"Text":"a"},{"Text":"<b>"}]}`: page.Page[struct{ Text string }]{Items: []struct{ Text string }{{"a"}, {"<b>"}}},
	} {
		for status, wantStatus := range map[int]int{200: 200, 201: 201, 204: 200} {
			rec := serve(func(w http.ResponseWriter, r *http.Request) { web.Write(w, r, status, value) }, "GET", "/x")
			if rec.Code != wantStatus || rec.Body.String() != want+"\n" {
				t.Errorf("%d became %d %swant %d %s", status, rec.Code, rec.Body, wantStatus, want)
			}
		}
	}
}

func TestErrorsAreEnveloped(t *testing.T) {
	for want, err := range map[string]error{
		`{"success":false,"code":"conflict","message":"taken"}`: errs.New(errs.Conflict, "taken"),
		`{"success":false,"code":"invalid","message":"the request has invalid values: body.name: too long",` +
			`"details":{"errors":[{"location":"body.name","message":"too long"}],"request_id":""}}`: errs.InvalidField("body.name", "too long"),
	} {
		rec := serve(func(w http.ResponseWriter, r *http.Request) { web.Fail(w, r, err) }, "GET", "/x")
		if rec.Body.String() != want+"\n" || rec.Header().Get("Content-Type") != "application/json" {
			t.Errorf("got %s %swant %s", rec.Header().Get("Content-Type"), rec.Body, want)
		}
	}
}

func TestDateAfterRuntimeRoutesIsIgnored(t *testing.T) {
	for _, test := range []struct{ method, path, want string }{
		{"POST", "/session/2025-03-17", "/session"},
		{"PUT", "/evalrun/2025-03-17", "/evalrun"},
		{"GET", "/session/2025-03-17", "/session/2025-03-17"},
		{"POST", "/session/today", "/session/today"},
		{"POST", "/thread/2025-03-17", "/thread/2025-03-17"},
	} {
		var got string
		serve(func(_ http.ResponseWriter, r *http.Request) { got = r.URL.Path }, test.method, test.path)
		if got != test.want {
			t.Errorf("%s %s is served as %s, want %s", test.method, test.path, got, test.want)
		}
	}
}

func TestPrefixIsNotNested(t *testing.T) {
	rec := serve(func(http.ResponseWriter, *http.Request) { t.Error("served") }, "GET", "/sdk/x")
	if rec.Code != http.StatusNotFound {
		t.Errorf("status %d, want 404", rec.Code)
	}
}

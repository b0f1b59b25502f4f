package web_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/encode"
	"steward/internal/page"
	"steward/internal/sdk"
	"steward/internal/web"
	"steward/internal/web/webtest"
)

func TestTextsAreAppendedAsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(webtest.Texts, rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(text); err != nil {
			t.Fatal(err)
		}
		if got := encode.String(nil, text); string(got)+"\n" != want.String() {
			t.Fatalf("%q became %s, want %s", text, got, want.String())
		}
	})
}

// TestEachByteAnywhere has every byte, and pairs with what ends a word of eight, at every place.
func TestEachByteAnywhere(t *testing.T) {
	for c := range 256 {
		for _, other := range []string{"", "\"", "\x1f", "ä", "\xff"} {
			for at := range 20 {
				text := strings.Repeat("x", at) + string([]byte{byte(c)}) + other + strings.Repeat("x", 20-at)
				want, err := encode.Value(nil, text)
				if got := encode.String(nil, text); err != nil || string(got) != string(want) {
					t.Fatalf("%q became %s, want %s", text, got, want)
				}
			}
		}
	}
}

// loud writes itself in a way that encoding/json would not.
type loud struct{ Text string }

func (l loud) AppendJSON(to []byte) ([]byte, error) { return encode.String(to, l.Text+"!"), nil }

// TestPagesOnBothFaces: whether its items write themselves or not, a page is an array, alone or as data.
func TestPagesOnBothFaces(t *testing.T) {
	for want, result := range map[string]any{
		`[]`:                            page.Page[loud]{},
		`["a!","<b>!"]`:                 page.Page[loud]{Items: []loud{{"a"}, {"<b>"}}},
		`[{"Text":"a"},{"Text":"<b>"}]`: page.Page[struct{ Text string }]{Items: []struct{ Text string }{{"a"}, {"<b>"}}},
		`["a!"]`:                        struct{ page.Page[loud] }{page.Page[loud]{Items: []loud{{"a"}}}},
		`{"Text":["<"]}`:                struct{ Text []string }{[]string{"<"}},
	} {
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { web.Write(w, r, http.StatusOK, result) })
		for path, body := range map[string]string{"/x": want + "\n", "/sdk/x": `{"success":true,"data":` + want + "}\n"} {
			rec := httptest.NewRecorder()
			mux := http.NewServeMux()
			mux.Handle("/", handler)
			mux.Handle(sdk.Prefix+"/", sdk.Mount(handler))
			mux.ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
			if rec.Body.String() != body {
				t.Errorf("%s: got %swant %s", path, rec.Body, body)
			}
		}
	}
}

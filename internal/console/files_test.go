package console

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/andybalholm/brotli"
)

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func TestShellIsServedForEveryPageWithoutASession(t *testing.T) {
	f := newFixture(t)
	for _, path := range []string{"/console/", "/console/webhooks", "/console/oauth/clients/oac_1", "/console/a.b/c"} {
		rec := f.get(path)
		if rec.Code != 200 || !strings.Contains(rec.Body.String(), "<!doctype html>") {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
		h := rec.Header()
		if h.Get("Cache-Control") != "no-cache" || h.Get("Content-Type") != "text/html; charset=utf-8" || h.Get("Set-Cookie") != "" {
			t.Errorf("%s: %v", path, h)
		}
	}
	if rec := f.get("/console"); rec.Code != 303 || rec.Header().Get("Location") != "/console/" {
		t.Errorf("/console: %d", rec.Code)
	}
}

func TestPagesCannotBeFramedOrRunOthersScripts(t *testing.T) {
	h := newFixture(t).get("/console/").Header()
	policy := h.Get("Content-Security-Policy")
	for _, want := range []string{
		"default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'", "base-uri 'none'",
		"connect-src 'self' https://s3.steward.test:9000;", "img-src 'self' blob: https://s3.steward.test:9000;",
		"require-trusted-types-for 'script'",
	} {
		if !strings.Contains(policy, want) {
			t.Errorf("%q is missing in %s", want, policy)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("got %s", policy)
	}
	for name, want := range map[string]string{
		"X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
	} {
		if h.Get(name) != want {
			t.Errorf("%s: %q", name, h.Get(name))
		}
	}
}

// inline matches scripts, styles and handlers within HTML, which the policy would refuse.
var inline = regexp.MustCompile(`<script>|<style|\son\w+=|\sstyle=|https?://`)

func TestShellHasNothingInlineAndNothingFromElsewhere(t *testing.T) {
	body := newFixture(t).get("/console/").Body.String()
	if found := inline.FindString(body); found != "" {
		t.Errorf("%q in %s", found, body)
	}
}

func TestAssetsAreCompressedAndCachedForever(t *testing.T) {
	f := newFixture(t)
	checked := 0
	for path := range newFiles("").byPath {
		if !strings.HasPrefix(path, assetPrefix) {
			continue
		}
		checked++
		plain := f.get(path)
		if plain.Code != 200 || plain.Header().Get("Cache-Control") != "public, max-age=31536000, immutable" {
			t.Fatalf("%s: %d %v", path, plain.Code, plain.Header())
		}
		for accept, want := range map[string]string{
			"deflate, gzip;q=0.5, br;q=0": "gzip", "gzip, br": "br", "identity": "",
		} {
			r := httptest.NewRequest("GET", path, nil)
			r.Header.Set("Accept-Encoding", accept)
			got := f.send(r)
			if got.Header().Get("Content-Encoding") != want || got.Header().Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s with %q: %v", path, accept, got.Header())
			}
			if want != "" && got.Body.Len() >= plain.Body.Len() {
				t.Errorf("%s has %d bytes with %s, and %d without", path, got.Body.Len(), want, plain.Body.Len())
			}
			if !bytes.Equal(decompress(t, want, got.Body), plain.Body.Bytes()) {
				t.Errorf("%s with %q: the content is not the same", path, accept)
			}
		}
	}
	if checked < 3 {
		t.Fatalf("%d assets", checked)
	}
}

// decompress returns what a body with a Content-Encoding contains.
func decompress(t *testing.T, encoding string, in io.Reader) []byte {
	t.Helper()
	var err error
	switch encoding {
	case "br":
		in = brotli.NewReader(in)
	case "gzip":
		in, err = gzip.NewReader(in)
	}
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestEachEncodingHasItsOwnTag sends the conditional requests, HEAD and Range to a real server, with
// every encoding. Ranges are not supported: the whole file is served.
func TestEachEncodingHasItsOwnTag(t *testing.T) {
	server := httptest.NewServer(newFixture(t).mux)
	defer server.Close()
	send := func(method, encoding, name, value string) (*http.Response, []byte) {
		r, err := http.NewRequest(method, server.URL+"/console/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", encoding)
		r.Header.Set(name, value)
		res, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, body
	}
	tags := map[string]string{}
	for _, encoding := range []string{"identity", "gzip", "br"} {
		whole, body := send("GET", encoding, "Range", "bytes=0-9")
		if whole.StatusCode != 200 || whole.ContentLength != int64(len(body)) || len(body) < 100 {
			t.Errorf("%s: a range: %d, %d bytes of %d", encoding, whole.StatusCode, len(body), whole.ContentLength)
		}
		head, none := send("HEAD", encoding, "Accept", "*/*")
		head.Header.Del("Date")
		whole.Header.Del("Date")
		if head.StatusCode != 200 || len(none) != 0 || !maps.EqualFunc(head.Header, whole.Header, slices.Equal) {
			t.Errorf("%s: HEAD: %d with %d bytes and %v, GET has %v",
				encoding, head.StatusCode, len(none), head.Header, whole.Header)
		}
		tags[encoding] = whole.Header.Get("ETag")
	}
	for of, tag := range tags {
		for encoding := range tags {
			want := 200
			if of == encoding {
				want = 304
			}
			res, body := send("GET", encoding, "If-None-Match", tag)
			if res.StatusCode != want || want == 304 && len(body) != 0 || res.Header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s with the tag of %s: %d %v", encoding, of, res.StatusCode, res.Header)
			}
		}
	}
}

func TestSimultaneousFirstRequestsCompressOnce(t *testing.T) {
	shell := newFiles("").shell
	for encoding, body := range shell.bodies {
		var requests sync.WaitGroup
		bodies := make([][]byte, 8)
		for i := range bodies {
			requests.Go(func() { bodies[i] = body().bytes })
		}
		requests.Wait()
		for _, b := range bodies {
			if &b[0] != &bodies[0][0] {
				t.Errorf("%q was made more than once", encoding)
			}
		}
	}
}

// referenced matches the files that the shell loads at once.
var referenced = regexp.MustCompile(`(?:src|href)="(/console/[^"]+)"`)

// TestFirstLoadIsSmall adds up what a browser loads before the first page is shown, with the imports of
// the scripts that are not lazy.
func TestFirstLoadIsSmall(t *testing.T) {
	f := newFixture(t)
	sum := 0
	files := newFiles("")
	for _, m := range referenced.FindAllStringSubmatch(f.get("/console/").Body.String(), -1) {
		asset := files.byPath[m[1]]
		if asset == nil {
			t.Errorf("%s is not there", m[1])
			continue
		}
		sum += len(asset.bodies["br"]().bytes)
	}
	if sum == 0 || sum > 200<<10 {
		t.Errorf("%d bytes, want at most 200 KiB", sum)
	}
}

func TestNoOtherFileIsServed(t *testing.T) {
	f := newFixture(t)
	for _, path := range []string{
		"/console/assets/", "/console/assets/none.js", "/console/assets/..%2findex.html", "/console/assets/..%2f..%2ffiles.go",
		"/console/assets/%2e%2e%5cindex.html", "/console/..%2f..%2fetc%2fpasswd",
	} {
		rec := f.get(path)
		if rec.Code == 200 && !strings.Contains(rec.Body.String(), `id="app"`) || strings.Contains(rec.Body.String(), "package console") {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
		if strings.HasPrefix(path, assetPrefix) && rec.Code != 404 {
			t.Errorf("%s: %d", path, rec.Code)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		if rec := f.send(httptest.NewRequest(method, "/console/webhooks", nil)); rec.Code != 405 || rec.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d", method, rec.Code)
		}
	}
}

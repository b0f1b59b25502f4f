package console

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"io"
	"io/fs"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
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
	for path, asset := range newFiles("").byPath {
		if !strings.HasPrefix(path, assetPrefix) {
			continue
		}
		checked++
		plain := f.get(path)
		if plain.Code != 200 || plain.Header().Get("Cache-Control") != "public, max-age=31536000, immutable" {
			t.Fatalf("%s: %d %v", path, plain.Code, plain.Header())
		}
		if len(asset.bodies) == 1 {
			t.Errorf("%s has no compressed form", path)
		}
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Accept-Encoding", "deflate, gzip;q=0.5, br;q=0")
		small := f.send(r)
		if small.Header().Get("Content-Encoding") != "gzip" || small.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %v", path, small.Header())
		}
		if got := gunzip(t, small.Body.Bytes()); !bytes.Equal(got, plain.Body.Bytes()) {
			t.Errorf("%s: the compressed file is not the same", path)
		}
		r.Header.Set("Accept-Encoding", "gzip, br")
		if br := f.send(r); br.Header().Get("Content-Encoding") != "br" || br.Body.Len() >= plain.Body.Len() {
			t.Errorf("%s: %v with %d bytes", path, br.Header(), br.Body.Len())
		}
		r.Header.Set("If-None-Match", f.send(r).Header().Get("ETag"))
		if again := f.send(r); again.Code != 304 || again.Body.Len() != 0 {
			t.Errorf("%s: %d", path, again.Code)
		}
	}
	if checked < 3 {
		t.Fatalf("%d assets", checked)
	}
}

func gunzip(t *testing.T, body []byte) []byte {
	zr, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	return plain
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
		sum += len(asset.bodies["br"])
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

// TestEveryAssetIsPlainBesideItsCompressedForms keeps the repository readable, and old clients served.
func TestEveryAssetIsPlainBesideItsCompressedForms(t *testing.T) {
	err := fs.WalkDir(dist, "dist", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !isCompressed(name) {
			return err
		}
		_, err = fs.Stat(dist, name[:len(name)-3])
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

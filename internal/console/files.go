package console

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/web"
)

// dist is what `make console` builds: each file, and beside it the same compressed.
//
//go:embed all:dist
var dist embed.FS

// encodings maps the suffixes of compressed files to their Content-Encoding, the best first.
var encodings = []struct{ suffix, name string }{{".br", "br"}, {".gz", "gzip"}}

// file is a file of the console in one or more encodings; the plain one is under "".
type file struct {
	contentType string
	cache       string
	bodies      map[string][]byte
	tags        map[string]string
}

// files serves the files of the console, and the shell for every page.
type files struct {
	policy string
	byPath map[string]*file
	shell  *file
}

// newFiles reads the embedded files.
func newFiles(policy string) *files {
	f := &files{policy: policy, byPath: map[string]*file{}}
	err := fs.WalkDir(dist, "dist", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || isCompressed(name) {
			return err
		}
		f.byPath[Prefix+strings.TrimPrefix(name, "dist/")] = readFile(name)
		return nil
	})
	if err != nil {
		panic(err) // they are embedded
	}
	f.shell = f.byPath[Prefix+"index.html"]
	delete(f.byPath, Prefix+"index.html")
	return f
}

func isCompressed(name string) bool {
	for _, e := range encodings {
		if strings.HasSuffix(name, e.suffix) {
			return true
		}
	}
	return false
}

func readFile(name string) *file {
	f := &file{
		contentType: contentType(name), cache: "no-cache",
		bodies: map[string][]byte{}, tags: map[string]string{},
	}
	if strings.HasPrefix(name, "dist/assets/") { // their names have a hash of what they hold
		f.cache = "public, max-age=31536000, immutable"
	}
	f.add(name, "")
	for _, e := range encodings {
		f.add(name+e.suffix, e.name)
	}
	return f
}

// add adds an encoding, if the file has it.
func (f *file) add(name, encoding string) {
	body, err := dist.ReadFile(name)
	if err != nil {
		return
	}
	sum := sha256.Sum256(body)
	f.bodies[encoding] = body
	f.tags[encoding] = `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

// contentType does not depend on the files of the machine, as package mime does.
func contentType(name string) string {
	switch ext := path.Ext(name); ext {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	default:
		return mime.TypeByExtension(ext)
	}
}

// ServeHTTP serves a file, or the shell if the path is a page.
func (f *files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		web.Fail(w, r, errs.New(errs.MethodNotAllowed, "method not allowed; this path supports GET, HEAD"))
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", f.policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	found := f.byPath[r.URL.Path]
	if found == nil && isPage(r.URL.Path) {
		found = f.shell
	}
	if found == nil {
		web.Fail(w, r, errs.New(errs.NotFound, "no such file"))
		return
	}
	found.serve(w, r)
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	encoding := f.encoding(r.Header.Get("Accept-Encoding"))
	h := w.Header()
	h.Set("Cache-Control", f.cache)
	h.Set("Vary", "Accept-Encoding")
	h.Set("ETag", f.tags[encoding])
	if page.NoneMatch(r.Header.Get("If-None-Match"), f.tags[encoding]) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.bodies[encoding]
	h.Set("Content-Type", f.contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if encoding != "" {
		h.Set("Content-Encoding", encoding)
	}
	w.WriteHeader(http.StatusOK)
	w.Write(body)
}

// encoding returns the best encoding of the file that a client accepts.
func (f *file) encoding(accept string) string {
	var accepted []string
	for entry := range strings.SplitSeq(accept, ",") {
		name, weight, _ := strings.Cut(entry, ";")
		if weight = strings.ReplaceAll(weight, " ", ""); weight != "q=0" && !strings.HasPrefix(weight, "q=0.000") {
			accepted = append(accepted, strings.ToLower(strings.TrimSpace(name)))
		}
	}
	for _, e := range encodings {
		if f.bodies[e.name] != nil && slices.Contains(accepted, e.name) {
			return e.name
		}
	}
	return ""
}

// policy returns the Content-Security-Policy of the pages: scripts and styles of this server alone,
// requests to it and to the object storage, for uploads and previews. Text becomes HTML only where
// Svelte makes elements of its templates, which is what its policy of trusted types is for.
func (c *Console) policy() string {
	storage := ""
	if u, err := url.Parse(c.S3URL); err == nil && u.Host != "" {
		storage = " " + u.Scheme + "://" + u.Host
	}
	return strings.Join([]string{
		"default-src 'none'",
		"script-src 'self'",
		"style-src 'self'",
		"img-src 'self' blob:" + storage,
		"connect-src 'self'" + storage,
		"form-action 'none'",
		"base-uri 'none'",
		"frame-ancestors 'none'",
		"require-trusted-types-for 'script'",
		"trusted-types svelte-trusted-html",
	}, "; ")
}

package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"

	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/web"
)

// dist is built by `make console`.
//
//go:embed all:dist
var dist embed.FS

// encodings has the values for Content-Encoding that we serve files with, the best first. Levels
// above both libraries' defaults take many times as long for a few percent.
var encodings = []struct {
	name   string
	writer func(io.Writer) io.WriteCloser
}{
	{"br", func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) }},
	{"gzip", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }},
}

type file struct {
	contentType string
	cache       string
	// bodies has a function for each encoding, and for "", the plain file. The first call makes the
	// body, and later ones return it again.
	bodies map[string]func() body
}

// body is a file's content in one encoding.
type body struct {
	bytes []byte
	tag   string
}

// files serves the console's files, and the shell for every page.
type files struct {
	policy string
	byPath map[string]*file
	shell  *file
}

func newFiles(policy string) *files {
	f := &files{policy: policy, byPath: map[string]*file{}}
	err := fs.WalkDir(dist, "dist", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		f.byPath[Prefix+strings.TrimPrefix(name, "dist/")] = newFile(name)
		return nil
	})
	if err != nil {
		panic(err) // they are embedded
	}
	f.shell = f.byPath[Prefix+"index.html"]
	delete(f.byPath, Prefix+"index.html")
	return f
}

func newFile(name string) *file {
	f := &file{contentType: contentType(name), cache: "no-cache", bodies: map[string]func() body{}}
	if strings.HasPrefix(name, "dist/assets/") { // their names contain a hash of the content
		f.cache = "public, max-age=31536000, immutable"
	}
	f.bodies[""] = sync.OnceValue(func() body { return newBody(read(name)) })
	for _, e := range encodings {
		f.bodies[e.name] = sync.OnceValue(func() body {
			return newBody(compress(read(name), e.writer))
		})
	}
	return f
}

func newBody(content []byte) body {
	sum := sha256.Sum256(content)
	return body{bytes: content, tag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
}

func read(name string) []byte {
	content, err := dist.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	return content
}

func compress(content []byte, writer func(io.Writer) io.WriteCloser) []byte {
	var out bytes.Buffer
	w := writer(&out)
	if _, err := w.Write(content); err != nil {
		panic(err) // out is memory
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// contentType does not depend on the machine's files, as package mime does.
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
	encoding := accepted(r.Header.Get("Accept-Encoding"))
	content := f.bodies[encoding]()
	h := w.Header()
	h.Set("Cache-Control", f.cache)
	h.Set("Vary", "Accept-Encoding")
	h.Set("ETag", content.tag)
	if page.NoneMatch(r.Header.Get("If-None-Match"), content.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.contentType)
	h.Set("Content-Length", strconv.Itoa(len(content.bytes)))
	if encoding != "" {
		h.Set("Content-Encoding", encoding)
	}
	w.WriteHeader(http.StatusOK)
	w.Write(content.bytes)
}

// accepted returns the best encoding that a client accepts, or "".
func accepted(header string) string {
	var names []string
	for entry := range strings.SplitSeq(header, ",") {
		name, weight, _ := strings.Cut(entry, ";")
		weight = strings.ReplaceAll(weight, " ", "")
		if weight != "q=0" && !strings.HasPrefix(weight, "q=0.000") {
			names = append(names, strings.ToLower(strings.TrimSpace(name)))
		}
	}
	for _, e := range encodings {
		if slices.Contains(names, e.name) {
			return e.name
		}
	}
	return ""
}

// policy returns the pages' Content-Security-Policy: scripts and styles only from this server,
// requests to it and to the object storage, for uploads and previews. Text becomes HTML only where
// Svelte makes elements from its templates; we allow its trusted types policy for that.
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

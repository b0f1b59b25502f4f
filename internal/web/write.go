package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"steward/internal/encode"
	"steward/internal/errs"
	"steward/internal/page"
)

// Face is one of the forms in which the same values leave the API. Handlers return values and errors and never know which face they serve.
type Face struct {
	// Prefix is where the face is mounted; the routes do not know it.
	Prefix string
	// Success gives status and body for a value that a handler returned; a nil body means an empty answer.
	Success func(status int, value any) (int, any)
	// Failure gives the body for an error.
	Failure func(ctx context.Context, status int, e *errs.Error) any
	// FailureType is the Content-Type of errors.
	FailureType string
}

// Bare is the face of the specification: the value itself, nothing where the specification says 204, problem+json for errors.
var Bare = &Face{
	Success: func(status int, value any) (int, any) {
		if _, none := value.(None); none || status == http.StatusNoContent {
			return status, nil
		}
		return status, value
	},
	Failure:     bareFailure,
	FailureType: "application/problem+json",
}

// None is what a handler returns when there is nothing to tell.
type None struct{}

// Raw is a body that is sent as it is, not as JSON.
type Raw struct {
	ContentType string
	Bytes       []byte
}

// headed values set headers of their response; a page.Page does.
type headed interface {
	SetHeaders(h http.Header, path string, query url.Values)
}

type faceKey struct{}

// WithFace gives a context whose answers take that face.
func WithFace(ctx context.Context, f *Face) context.Context {
	return context.WithValue(ctx, faceKey{}, f)
}

// FaceOf returns the face of the request that ctx belongs to.
func FaceOf(ctx context.Context) *Face {
	if f, ok := ctx.Value(faceKey{}).(*Face); ok {
		return f
	}
	return Bare
}

// Write answers with a handler's value: the one function through which every management answer leaves.
func Write(w http.ResponseWriter, r *http.Request, status int, value any) {
	h := w.Header()
	if v, ok := value.(page.Versioned); ok {
		tag := v.ETag()
		h["Etag"] = []string{tag}
		if isRead(r) && page.NoneMatch(r.Header.Get("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	if v, ok := value.(headed); ok {
		v.SetHeaders(h, FaceOf(r.Context()).Prefix+r.URL.EscapedPath(), r.URL.Query())
	}
	if raw, ok := value.(Raw); ok {
		h.Set("Content-Type", raw.ContentType)
		h.Set("Content-Length", strconv.Itoa(len(raw.Bytes)))
		w.WriteHeader(status)
		w.Write(raw.Bytes)
		return
	}
	status, body := FaceOf(r.Context()).Success(status, value)
	if body == nil {
		w.WriteHeader(status)
		return
	}
	h["Content-Type"] = jsonType
	writeJSON(w, r, status, body)
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// jsonType is shared by all answers; nobody changes it.
var jsonType = []string{"application/json"}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled is the largest buffer that is kept for other responses.
const maxPooled = 1 << 20

// writeJSON encodes the whole body before it writes, so that a value that cannot be encoded becomes a 500 and not half a
// response. While a client reads, the encoded body is all that is kept of the response.
func writeJSON(w http.ResponseWriter, r *http.Request, status int, body any) {
	buf := buffers.Get().(*[]byte)
	out, err := encode.Value((*buf)[:0], body)
	if err != nil {
		Fail(w, r, fmt.Errorf("encode response: %w", err))
		return
	}
	out = append(out, '\n')
	*buf = out
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(out))}
	w.WriteHeader(status)
	w.Write(out)
	if cap(out) <= maxPooled {
		buffers.Put(buf)
	}
}

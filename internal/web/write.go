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

// Face is a format for values and errors. All faces share the same handlers.
type Face struct {
	// Prefix is the path where the face is mounted.
	Prefix string
	// Success returns status and body for a handler's value. A nil body means an empty response.
	Success func(status int, value any) (int, any)
	// Failure returns the body for an error.
	Failure func(ctx context.Context, status int, e *errs.Error) any
	// FailureType is the Content-Type for errors.
	FailureType string
}

// Bare is the root face: bare values, empty responses with status 204, and problem+json for errors.
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

// None is the value for handlers without a result.
type None struct{}

// Raw is a value that we write as it is, not as JSON.
type Raw struct {
	ContentType string
	Bytes       []byte
}

// Stream is a value that takes a long time to write. Serve writes it, including headers and status.
type Stream struct {
	ContentType string
	Serve       http.HandlerFunc
}

// Lines is a Stream of JSON objects, one on each line.
type Lines struct{ Serve http.HandlerFunc }

// alternative is implemented by values that may have to be written as another value with its own status,
// such as a dry run's result.
type alternative interface {
	Alternative() (status int, value any, ok bool)
}

// headerSetter is implemented by values that set headers in their response, such as page.Page.
type headerSetter interface {
	SetHeaders(h http.Header, path string, query url.Values)
}

// moreHeaders is implemented by lists that set more headers than a page.Page.
type moreHeaders interface{ MoreHeaders() []string }

type faceKey struct{}

// WithFace returns a context for requests in a face.
func WithFace(ctx context.Context, f *Face) context.Context {
	return context.WithValue(ctx, faceKey{}, f)
}

// FaceOf returns the request's face, or Bare by default.
func FaceOf(ctx context.Context) *Face {
	if f, ok := ctx.Value(faceKey{}).(*Face); ok {
		return f
	}
	return Bare
}

// Write writes a handler's value in the request's face.
func Write(w http.ResponseWriter, r *http.Request, status int, value any) {
	h := w.Header()
	if v, ok := value.(alternative); ok {
		if otherStatus, other, ok := v.Alternative(); ok {
			status = otherStatus
			value = other
		}
	}
	if v, ok := value.(page.Versioned); ok {
		tag := v.ETag()
		h["Etag"] = []string{tag}
		if _, moving := v.(page.Moving); !moving && isRead(r) && page.NoneMatch(r.Header.Get("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	if v, ok := value.(headerSetter); ok {
		v.SetHeaders(h, FaceOf(r.Context()).Prefix+r.URL.EscapedPath(), r.URL.Query())
	}
	if raw, ok := value.(Raw); ok {
		if len(raw.Bytes) > smallResponse && !takeMemory(r.Context(), len(raw.Bytes)) {
			Fail(w, r, errNoMemory())
			return
		}
		h.Set("Content-Type", raw.ContentType)
		h.Set("Content-Length", strconv.Itoa(len(raw.Bytes)))
		w.WriteHeader(status)
		w.Write(raw.Bytes)
		return
	}
	if stream, ok := value.(Stream); ok {
		h.Set("Content-Type", stream.ContentType)
		stream.Serve(w, r)
		return
	}
	if lines, ok := value.(Lines); ok {
		h.Set("Content-Type", linesType)
		lines.Serve(w, r)
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

const linesType = "application/x-ndjson"

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// jsonType is shared by all responses, so nobody may modify it.
var jsonType = []string{"application/json"}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled is the largest buffer that we reuse, in bytes.
const maxPooled = 1 << 20

// smallResponse is the largest response, in bytes, that we do not charge to API.Memory: the kernel takes
// it even if the client does not read.
const smallResponse = 64 << 10

// writeJSON encodes the whole body before it writes, so that a value that cannot be encoded becomes a 500
// and not half a response. While a client reads, we keep only the encoded body.
func writeJSON(w http.ResponseWriter, r *http.Request, status int, body any) {
	buf := buffers.Get().(*[]byte)
	out, err := encode.Value((*buf)[:0], body)
	if err != nil {
		Fail(w, r, fmt.Errorf("encode response: %w", err))
		return
	}
	out = append(out, '\n')
	*buf = out
	if len(out) > smallResponse && !takeMemory(r.Context(), cap(out)) {
		Fail(w, r, errNoMemory())
		return
	}
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(out))}
	w.WriteHeader(status)
	w.Write(out)
	if cap(out) <= maxPooled {
		buffers.Put(buf)
	}
}

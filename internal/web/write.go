package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"

	"steward/internal/errs"
)

// Face is one of the forms in which the same values leave the API. Handlers return values and errors and never know which face they serve.
type Face struct {
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
		return status, Plain(value)
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

// Versioned values give their row's version as a strong ETag.
type Versioned interface{ ETag() string }

// headed values set headers of their answer from the request.
type headed interface {
	setHeaders(http.Header, *http.Request)
}

// Plain gives what a face sends of a value: a page's items, anything else as it is. Encoding the items directly spares a second pass over
// what a MarshalJSON has written.
func Plain(value any) any {
	if p, ok := value.(interface{ Plain() any }); ok {
		return p.Plain()
	}
	return value
}

type faceKey struct{}

// WithFace gives a context whose answers take that face.
func WithFace(ctx context.Context, f *Face) context.Context {
	return context.WithValue(ctx, faceKey{}, f)
}

func faceOf(ctx context.Context) *Face {
	if f, ok := ctx.Value(faceKey{}).(*Face); ok {
		return f
	}
	return Bare
}

// Write answers with a handler's value: the one function through which every management answer leaves.
func Write(w http.ResponseWriter, r *http.Request, status int, value any) {
	h := w.Header()
	if v, ok := value.(Versioned); ok {
		tag := v.ETag()
		h["Etag"] = []string{tag}
		if r.Method == http.MethodGet && r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	if v, ok := value.(headed); ok {
		v.setHeaders(h, r)
	}
	if raw, ok := value.(Raw); ok {
		h.Set("Content-Type", raw.ContentType)
		h.Set("Content-Length", strconv.Itoa(len(raw.Bytes)))
		w.WriteHeader(status)
		w.Write(raw.Bytes)
		return
	}
	status, body := faceOf(r.Context()).Success(status, value)
	if body == nil {
		w.WriteHeader(status)
		return
	}
	h["Content-Type"] = jsonType
	writeJSON(w, r, status, body)
}

// jsonType is shared by all answers; nobody changes it.
var jsonType = []string{"application/json"}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// writeJSON encodes before it sends, so that a value that cannot be encoded is a clean 500 and not half an answer.
func writeJSON(w http.ResponseWriter, r *http.Request, status int, body any) {
	buf := buffers.Get().(*bytes.Buffer)
	buf.Reset()
	if err := encode(buf, body); err != nil {
		Log(r.Context()).Error("answer cannot be encoded", "error", err)
		http.Error(w, `{"code":"internal","status":500}`, http.StatusInternalServerError)
		return
	}
	w.Header()["Content-Length"] = []string{strconv.Itoa(buf.Len())}
	w.WriteHeader(status)
	w.Write(buf.Bytes())
	if buf.Cap() <= 64<<10 {
		buffers.Put(buf)
	}
}

func encode(buf *bytes.Buffer, v any) error {
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	err := encode(&buf, v)
	return buf.Bytes(), err
}

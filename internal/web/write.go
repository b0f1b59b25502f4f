package web

import (
	"bytes"
	"context"
	"encoding/json"
	"math/bits"
	"net/http"
	"strconv"
	"sync"
	"unicode/utf8"

	"steward/internal/errs"
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

// Versioned values give their row's version as a strong ETag.
type Versioned interface{ ETag() string }

// headed values set headers of their answer from the request.
type headed interface {
	setHeaders(http.Header, *http.Request)
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
		if known := r.Header.Get("If-None-Match"); known != "" && isRead(r) && matches(known, tag, weakly) {
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

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// jsonType is shared by all answers; nobody changes it.
var jsonType = []string{"application/json"}

// Appender values write their own JSON, as encoding/json would. They are for large answers: it would look at each field by reflection, and
// pass once more over what a MarshalJSON has written.
type Appender interface {
	AppendJSON(to []byte) ([]byte, error)
}

// AppendJSON adds a value's JSON in the form of all answers: < > & are not escaped.
func AppendJSON(to []byte, value any) ([]byte, error) {
	out := output(to)
	err := out.encode(value)
	return bytes.TrimSuffix(out, []byte("\n")), err
}

// AppendString adds text as JSON. What is rare in text is left to encoding/json.
func AppendString(to []byte, text string) []byte {
	start, done := len(to), 0
	to = append(to, '"')
	for i := NextSpecial(text, 0); i < len(text); i = NextSpecial(text, i) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			to = append(append(to, text[done:i]...), '\\', c)
			i++
			done = i
		case c == '\n':
			to = append(append(to, text[done:i]...), `\n`...)
			i++
			done = i
		case c < ' ':
			return appendEncoded(to[:start], text)
		}
		for i < len(text) && text[i] >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(text[i:])
			if r == utf8.RuneError || r == '\u2028' || r == '\u2029' {
				return appendEncoded(to[:start], text)
			}
			i += n
		}
	}
	return append(append(to, text[done:]...), '"')
}

// NextSpecial gives the place of the first byte, from one on, that does not stand for itself in a string of JSON: a quote, a backslash, a
// control character, or a part of a longer character; else the length. It looks at eight bytes at once. A subtraction sets the upper bit of
// a byte that is too small; it may also borrow from the byte above, but then the lower one was found already.
func NextSpecial[T string | []byte](text T, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(text); i += 8 {
		b := text[i : i+8]
		x := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		found := (x | (x - ' '*ones) | ((x ^ '"'*ones) - ones) | ((x ^ '\\'*ones) - ones)) & tops
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(text); i++ {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return i
		}
	}
	return i
}

func appendEncoded(to []byte, text string) []byte {
	to, _ = AppendJSON(to, text) // text always does
	return to
}

// AppendOptional adds text as JSON, or null.
func AppendOptional(to []byte, text *string) []byte {
	if text == nil {
		return append(to, "null"...)
	}
	return AppendString(to, *text)
}

// output is the body of an answer.
type output []byte

func (o *output) Write(p []byte) (int, error) {
	*o = append(*o, p...)
	return len(p), nil
}

// encode adds a value, and the end of the line.
func (o *output) encode(value any) (err error) {
	if a, ok := value.(Appender); ok {
		*o, err = a.AppendJSON(*o)
		*o = append(*o, '\n')
		return err
	}
	enc := json.NewEncoder(o)
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}

var outputs = sync.Pool{New: func() any { return new(output) }}

// mostPooled is the largest output that is kept for other answers: a usual page, or a year of hours.
const mostPooled = 1 << 20

// writeJSON encodes before it sends, so that a value that cannot be encoded is a clean 500 and not half an answer.
func writeJSON(w http.ResponseWriter, r *http.Request, status int, body any) {
	out := outputs.Get().(*output)
	*out = (*out)[:0]
	if err := out.encode(body); err != nil {
		Fail(w, r, err) // an error can be encoded
		return
	}
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(*out))}
	w.WriteHeader(status)
	w.Write(*out)
	if cap(*out) <= mostPooled {
		outputs.Put(out)
	}
}

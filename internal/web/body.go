package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"steward/internal/budget"
	"steward/internal/errs"
)

// MaxBody is the maximum size of a request's body in bytes, unless its route sets another
// (Route.WithMaxBody).
const MaxBody = 1 << 20

// readBody reads a request's whole body. It returns TooLarge, UnsupportedMediaType or Malformed if the body
// is too large, not JSON by its Content-Type, or incomplete, and Unavailable if there is no memory for it.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, memory *budget.Charge) ([]byte, error) {
	if r.Body == http.NoBody {
		return nil, nil
	}
	if !memory.Take(budget.RequestBytes) {
		return nil, explainBody(w, budget.ErrFull, limit)
	}
	deadline := http.NewResponseController(w).SetReadDeadline
	limited := http.MaxBytesReader(w, r.Body, limit)
	body, err := budget.ReadAll(memory, budget.Body.Reader(limited, deadline), min(r.ContentLength, limit))
	if errors.Is(err, budget.ErrFull) {
		budget.Drain(limited, deadline)
	}
	if err != nil {
		return nil, explainBody(w, err, limit)
	}
	if len(body) > 0 && !isJSON(r.Header.Get("Content-Type")) {
		return nil, errs.New(errs.UnsupportedMediaType, "the Content-Type must be application/json")
	}
	if encoding := r.Header.Get("Content-Encoding"); len(body) > 0 && encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, errs.New(errs.UnsupportedMediaType, "the body must not have a Content-Encoding")
	}
	return body, nil
}

func explainBody(w http.ResponseWriter, err error, limit int64) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return errs.New(errs.TooLarge, "the body exceeds %d bytes", limit)
	case errors.Is(err, budget.ErrFull):
		w.Header().Set("Connection", "close") // nobody reads the rest
		return errNoMemory()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errs.New(errs.Malformed, "the body was not sent in time")
	}
	return errs.New(errs.Malformed, "the body is incomplete or could not be read")
}

func errNoMemory() error {
	return errs.Unavailablef(nil, "too many large requests of this organization are being served")
}

// isJSON reports whether a Content-Type is JSON. Without a Content-Type we assume JSON.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

// parseJSON parses a body for validation.
func parseJSON(body []byte) (any, error) {
	if !utf8.Valid(body) {
		return nil, errs.New(errs.Malformed, "the body is not UTF-8")
	}
	var tree any
	err := json.Unmarshal(body, &tree)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, errs.New(errs.Malformed, "the body is not valid JSON: error at byte %d", syntax.Offset)
	}
	if err != nil {
		return nil, errs.New(errs.Malformed, "the body is not valid JSON: a number is out of range")
	}
	return tree, nil
}

const withoutNUL = "expected text without the character U+0000"

// refuseNUL adds a fault for each text that contains the character U+0000.
func refuseNUL(faults *errs.Faults, location string, value any) {
	switch v := value.(type) {
	case string:
		faults.Check(!strings.ContainsRune(v, 0), location, withoutNUL)
	case []any:
		for i, item := range v {
			refuseNUL(faults, fmt.Sprintf("%s[%d]", location, i), item)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if strings.ContainsRune(name, 0) {
				faults.Add(location, withoutNUL)
				continue
			}
			refuseNUL(faults, location+"."+name, v[name])
		}
	}
}

// containsNUL reports whether the body contains the escape \u0000, which PostgreSQL cannot store as text.
// An escaped backslash followed by u0000 does not count.
func containsNUL(body []byte) bool {
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' {
			continue
		}
		i++ // the escaped character
		if bytes.HasPrefix(body[i:], []byte("u0000")) {
			return true
		}
	}
	return false
}

const (
	// largeText is the size in bytes above which JSON must take turns. Smaller texts are decoded in a few
	// milliseconds.
	largeText = 64 << 10
	// decodeWait is how long a request waits for its turn.
	decodeWait = 30 * time.Second
	// maxMarks caps the opening brackets, commas and colons in JSON larger than MaxBody.
	maxMarks = 400_000
)

// Decoding decodes large JSON one text at a time, while organizations take turns: small objects take 60
// times their text in memory. A hostile text, as large as MaxBody or maxMarks permits, takes 70 MB and
// occupies a processor for half a second. Use NewDecoding to make one.
type Decoding struct{ queue *budget.Queue }

// NewDecoding returns a Decoding.
func NewDecoding() *Decoding { return &Decoding{queue: budget.NewQueue(1)} }

// Do calls decode for a text that an organization has sent. A large text must wait for its turn. Do
// returns TooLarge if the text has too many values, and Unavailable if its turn does not come in time.
func (d *Decoding) Do(ctx context.Context, orgID string, text []byte, decode func() error) error {
	if len(text) <= largeText {
		return decode()
	}
	if len(text) > MaxBody && countMarks(text) > maxMarks {
		return errs.New(errs.TooLarge, "the JSON has too many values")
	}
	ctx, cancel := context.WithTimeout(ctx, decodeWait)
	defer cancel()
	if err := d.queue.Enter(ctx, orgID, ""); err != nil {
		return errs.Unavailablef(nil, "too many large requests are being served") // perhaps other organizations' requests
	}
	defer d.queue.Leave(orgID)
	return decode()
}

// countMarks counts opening brackets, commas and colons outside strings. Every value except the first
// follows one of them.
func countMarks(text []byte) (n int) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '[', '{', ',', ':':
			n++
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		}
	}
	return n
}

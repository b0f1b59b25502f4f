package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
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
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
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

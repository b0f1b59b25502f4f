package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"steward/internal/errs"
)

// MaxBody is the maximum size of a request's body, unless its route has another
// (Route.WithMaxBody).
const MaxBody = 1 << 20

// readBody reads the whole body of a request. It returns TooLarge, UnsupportedMediaType or
// Malformed if the body is too large, not JSON by its Content-Type, or incomplete.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.Body == http.NoBody {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, errs.New(errs.TooLarge, "the body exceeds %d bytes", limit)
	}
	if err != nil {
		return nil, errs.New(errs.Malformed, "the body is incomplete or could not be read")
	}
	if len(body) > 0 && !isJSON(r.Header.Get("Content-Type")) {
		return nil, errs.New(errs.UnsupportedMediaType, "the Content-Type must be application/json")
	}
	return body, nil
}

// isJSON reports whether a Content-Type is JSON, which is also assumed if there is none.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

// parseJSON returns the value of a body for validation.
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
	if containsNUL(body) {
		return nil, errs.InvalidField("body", "expected strings without the character U+0000")
	}
	return tree, nil
}

// containsNUL reports whether the body contains the escape \u0000, which PostgreSQL cannot store as
// text, as opposed to an escaped backslash followed by u0000.
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

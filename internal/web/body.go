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

// MaxBody is the most that a management request may carry, unless its route says otherwise.
const MaxBody = 1 << 20

// checkedBody reads a management request's body whole and refuses what no route takes: too much, not JSON by name, not JSON by content.
// Routes that take no body ignore what was sent, as long as it is not called something else than JSON.
func checkedBody(w http.ResponseWriter, r *http.Request, route Route) ([]byte, error) {
	if r.Body == http.NoBody {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, route.maxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, errs.New(errs.TooLarge, "the body is larger than %d bytes", route.maxBody)
	}
	if err != nil {
		return nil, errs.New(errs.Malformed, "the body ended early or could not be read")
	}
	if len(body) == 0 {
		return body, nil
	}
	if !isJSON(r.Header.Get("Content-Type")) {
		return nil, errs.New(errs.UnsupportedMediaType, "the body must be application/json")
	}
	if route.takesBody {
		err = checkJSON(body)
	}
	return body, err
}

// isJSON takes a missing Content-Type for JSON: nothing else is spoken here.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

func checkJSON(body []byte) error {
	if !utf8.Valid(body) {
		return errs.New(errs.Malformed, "the body is not UTF-8")
	}
	var whole json.RawMessage
	if err := json.Unmarshal(body, &whole); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return errs.New(errs.Malformed, "the body is not valid JSON at byte %d", syntax.Offset)
		}
		return errs.New(errs.Malformed, "the body is not valid JSON")
	}
	if holdsNUL(body) {
		return errs.Wrong("body", `text must not hold the character U+0000`)
	}
	return nil
}

// holdsNUL finds the escape \u0000, which PostgreSQL cannot store as text; \\u0000 is harmless.
func holdsNUL(body []byte) bool {
	escape := []byte(`\u0000`)
	for i := bytes.Index(body, escape); i >= 0; {
		slashes := 0
		for j := i - 1; j >= 0 && body[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return true
		}
		next := bytes.Index(body[i+1:], escape)
		if next < 0 {
			return false
		}
		i += 1 + next
	}
	return false
}

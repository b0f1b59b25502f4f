package oauth

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

// maxForm is the largest form that we read.
const maxForm = 64 << 10

// ReadForm parses a POST's form into r.PostForm.
func ReadForm(w http.ResponseWriter, r *http.Request) error {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/x-www-form-urlencoded" {
		return NewError(InvalidRequest, "the body must be application/x-www-form-urlencoded")
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return NewError(InvalidRequest, "the form is malformed or too large")
	}
	return nil
}

// Param returns a parameter, or "" if it is absent. It returns an error if the parameter is repeated
// (RFC 6749 section 3.1) or is not valid text.
func Param(form url.Values, name string) (string, error) {
	values := form[name]
	if len(values) > 1 {
		return "", NewError(InvalidRequest, name+" is repeated")
	}
	if len(values) == 0 {
		return "", nil
	}
	if !utf8.ValidString(values[0]) || strings.ContainsRune(values[0], 0) {
		return "", NewError(InvalidRequest, name+" is not valid UTF-8 text")
	}
	return values[0], nil
}

// Required returns a parameter that must not be empty.
func Required(form url.Values, name string) (string, error) {
	value, err := Param(form, name)
	if err != nil {
		return "", err
	}
	if value == "" {
		return "", Missing(name)
	}
	return value, nil
}

// AddQuery adds parameters to a URI's query, which otherwise stays unchanged.
func AddQuery(uri string, params url.Values) (string, error) {
	if len(params) == 0 {
		return uri, nil
	}
	u, err := url.Parse(uri)
	if err != nil {
		return "", fmt.Errorf("parse redirect URI: %w", err)
	}
	u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+params.Encode(), "&")
	return u.String(), nil
}

// Missing returns the error for a parameter that is absent or empty.
func Missing(name string) *Error { return NewError(InvalidRequest, name+" is missing") }

// Key is the installation's secret key, the same on all replicas. It authenticates refresh tokens,
// forms, nonces and the cookies for known browsers.
type Key []byte

// MAC returns an HMAC-SHA-256 over parts. The purpose separates the key's uses.
func (k Key) MAC(purpose string, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, k)
	h.Write([]byte(purpose))
	for _, part := range parts {
		h.Write([]byte{0, byte(len(part) >> 8), byte(len(part))})
		h.Write(part)
	}
	return h.Sum(nil)
}

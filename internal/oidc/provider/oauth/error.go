// Package oauth is shared by the provider's endpoints: their paths, the error response, JSON responses,
// the parsing of form parameters, the installation's key, and the limits on repeated attempts.
//
// An endpoint returns a value and an error. WriteJSON writes the value. WriteError writes the error,
// after AsError has turned it into an error response, so that we log internal errors and do not show
// them.
package oauth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"steward/internal/errs"
	"steward/internal/web"
)

// Error codes from RFC 6749, RFC 6750, RFC 8628, RFC 8707, RFC 9449 and OpenID Connect Core.
const (
	InvalidRequest       = "invalid_request"
	InvalidClient        = "invalid_client"
	InvalidGrant         = "invalid_grant"
	InvalidScope         = "invalid_scope"
	InvalidTarget        = "invalid_target"
	InvalidToken         = "invalid_token"
	InvalidDPoPProof     = "invalid_dpop_proof"
	UseDPoPNonce         = "use_dpop_nonce"
	InsufficientScope    = "insufficient_scope"
	AccessDenied         = "access_denied"
	UnauthorizedClient   = "unauthorized_client"
	UnsupportedGrantType = "unsupported_grant_type"
	LoginRequired        = "login_required"
	ConsentRequired      = "consent_required"
	InteractionRequired  = "interaction_required"
	Unavailable          = "temporarily_unavailable"
	ServerError          = "server_error"
)

// The token types for access tokens, which also name their authentication schemes.
const (
	Bearer = "Bearer"
	DPoP   = "DPoP"
)

// Error is an error response (RFC 6749 section 5.2): a code for programs and a description for their
// developers. The description never contains a value from the request.
type Error struct {
	Status      int
	Code        string
	Description string
}

func (e *Error) Error() string { return e.Code + ": " + e.Description }

// NewError returns an Error with the status that belongs to its code: 401 for InvalidClient and
// InvalidToken, otherwise 400.
func NewError(code, description string) *Error {
	status := http.StatusBadRequest
	if code == InvalidClient || code == InvalidToken {
		status = http.StatusUnauthorized
	}
	return &Error{Status: status, Code: code, Description: description}
}

var (
	// ErrGrant is the same for codes and tokens that are unknown, used, expired, revoked or issued to
	// another client.
	ErrGrant = NewError(InvalidGrant, "the code or token is invalid, expired or revoked")
	// ErrClient is the same for an unknown client and for a wrong secret.
	ErrClient = NewError(InvalidClient, "client authentication failed")
)

// AsError returns err as an error response. It logs an error that is neither an *Error nor meant for
// the caller, and returns ServerError instead.
func AsError(ctx context.Context, err error) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	switch e := web.Visible(ctx, err); e.Kind {
	case errs.Unavailable:
		return &Error{http.StatusServiceUnavailable, Unavailable, e.Message}
	case errs.Invalid, errs.Malformed:
		return NewError(InvalidRequest, e.Message)
	}
	return &Error{http.StatusInternalServerError, ServerError, "internal error"}
}

type errorBody struct {
	Code        string `json:"error"`
	Description string `json:"error_description,omitempty"`
}

// WriteError writes an error response with its headers.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	e := AsError(r.Context(), err)
	switch {
	case e.Code == InvalidClient:
		w.Header().Set("WWW-Authenticate", `Basic realm="oauth"`)
	case e.Status == http.StatusServiceUnavailable, e.Status == http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	}
	WriteJSON(w, e.Status, errorBody{e.Code, e.Description})
}

// WriteBearerError writes an error response from an endpoint that accepts access tokens. If the
// endpoint refused access, the challenge goes into WWW-Authenticate (RFC 6750 section 3).
func WriteBearerError(w http.ResponseWriter, e *Error, challenge string) {
	if e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden {
		w.Header().Set("WWW-Authenticate", challenge)
	}
	WriteJSON(w, e.Status, errorBody{e.Code, e.Description})
}

// WriteJSON writes a JSON response. It forbids caching unless Cache-Control is set already.
func WriteJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err) // this provider's types always encode
	}
	WriteEncoded(w, status, body)
}

// WriteEncoded is WriteJSON for a value that is encoded already.
func WriteEncoded(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
		h.Set("Pragma", "no-cache")
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}

// Observer counts what the provider does. A grant type is "unknown" unless we support it.
type Observer struct {
	// Issued and Refused are called for each response of the token endpoint.
	Issued  func(grantType string)
	Refused func(grantType, code string)
	// LogoutSent is called after each attempt to send a logout token. taken reports whether the client
	// accepted it.
	LogoutSent func(taken bool)
}

// NewObserver returns an observer that counts nothing.
func NewObserver() *Observer {
	return &Observer{Issued: func(string) {}, Refused: func(_, _ string) {}, LogoutSent: func(bool) {}}
}

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

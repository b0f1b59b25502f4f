package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// Error is an error response: the server's problem document (RFC 9457), or whatever a proxy in between
// made of it.
type Error struct {
	// Status is the HTTP status.
	Status int `json:"-"`
	// Code is the error's kind, such as not_found. It is empty if the response does not come from
	// Steward.
	Code string `json:"code"`
	// Detail explains the error.
	Detail string `json:"detail"`
	// RequestID is the request's id in the server's log.
	RequestID string `json:"request_id"`
	// Fields are the request's invalid values.
	Fields []FieldError `json:"errors"`
	// FieldsOmitted counts the invalid values beyond Fields.
	FieldsOmitted int `json:"errors_omitted"`
	// RetryAfter is how long the server asks you to wait before the next attempt, or 0.
	RetryAfter time.Duration `json:"-"`
}

// FieldError describes an invalid value in a request.
type FieldError struct {
	// Location names the value, such as body.name or query.limit.
	Location string `json:"location"`
	// Message explains which values are valid.
	Message string `json:"message"`
}

// Error codes.
const (
	CodeMalformed            = "malformed"
	CodeUnauthorized         = "unauthorized"
	CodeForbidden            = "forbidden"
	CodeNotFound             = "not_found"
	CodeMethodNotAllowed     = "method_not_allowed"
	CodeConflict             = "conflict"
	CodePreconditionFailed   = "precondition_failed"
	CodeTooLarge             = "too_large"
	CodeUnsupportedMediaType = "unsupported_media_type"
	CodeInvalid              = "invalid"
	CodeRateLimited          = "rate_limited"
	CodeInternal             = "internal"
	CodeUnavailable          = "unavailable"
)

func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString(e.Detail)
	for _, f := range e.Fields {
		fmt.Fprintf(&text, "; %s: %s", f.Location, f.Message)
	}
	if e.FieldsOmitted > 0 {
		fmt.Fprintf(&text, "; and %d more", e.FieldsOmitted)
	}
	fmt.Fprintf(&text, " (%d", e.Status)
	if e.RequestID != "" {
		text.WriteString(", request " + e.RequestID)
	}
	text.WriteString(")")
	return text.String()
}

// newError turns a response into an error.
func newError(res *Response) *Error {
	e := &Error{}
	mediaType, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if mediaType == "application/problem+json" && json.Unmarshal(res.Body, e) != nil {
		e = &Error{}
	}
	e.Status = res.Status
	e.RetryAfter, _ = retryAfter(res)
	if e.RequestID == "" {
		e.RequestID = res.RequestID()
	}
	if e.Detail == "" {
		e.Detail = foreignDetail(res)
	}
	return e
}

// foreignDetail describes a response that has no problem document.
func foreignDetail(res *Response) string {
	if location := res.Header.Get("Location"); location != "" {
		return fmt.Sprintf("the server redirects to %s; check the base URL", location)
	}
	if text := http.StatusText(res.Status); text != "" {
		return strings.ToLower(text)
	}
	return "unexpected status"
}

func hasStatus(err error, status int) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == status
}

// IsUnauthorized reports whether err says that the key is missing or invalid.
func IsUnauthorized(err error) bool { return hasStatus(err, http.StatusUnauthorized) }

// IsForbidden reports whether err says that the role or scope is not sufficient.
func IsForbidden(err error) bool { return hasStatus(err, http.StatusForbidden) }

// IsNotFound reports whether err says that something does not exist.
func IsNotFound(err error) bool { return hasStatus(err, http.StatusNotFound) }

// IsConflict reports whether err says that the request contradicts stored data.
func IsConflict(err error) bool { return hasStatus(err, http.StatusConflict) }

// IsPreconditionFailed reports whether err says that If-Match does not have the current ETag.
func IsPreconditionFailed(err error) bool { return hasStatus(err, http.StatusPreconditionFailed) }

// IsInvalid reports whether err says that the request contains invalid values.
func IsInvalid(err error) bool { return hasStatus(err, http.StatusUnprocessableEntity) }

// IsRateLimited reports whether err says that there are too many requests.
func IsRateLimited(err error) bool { return hasStatus(err, http.StatusTooManyRequests) }

// IsUnavailable reports whether err says that the server is overloaded or shutting down.
func IsUnavailable(err error) bool { return hasStatus(err, http.StatusServiceUnavailable) }

// IsNotModified reports whether err says that the resource still has the ETag in If-None-Match.
func IsNotModified(err error) bool { return hasStatus(err, http.StatusNotModified) }

// isNetworkError reports whether err comes from the connection, so that another attempt may succeed.
func isNetworkError(err error) bool {
	var n net.Error
	return errors.As(err, &n) && !isNoHost(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed)
}

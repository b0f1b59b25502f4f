// Package errs owns the type of errors that clients may see.
//
// A function that rejects a request returns an *Error. Its Kind determines the HTTP status, in
// package web. All other errors are internal: they are logged, and the client learns nothing of
// them.
package errs

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind is the kind of an error, which the API returns as its `code`.
type Kind string

// The kinds.
const (
	Malformed            Kind = "malformed"
	Unauthorized         Kind = "unauthorized"
	Forbidden            Kind = "forbidden"
	NotFound             Kind = "not_found"
	MethodNotAllowed     Kind = "method_not_allowed"
	Conflict             Kind = "conflict"
	PreconditionFailed   Kind = "precondition_failed"
	TooLarge             Kind = "too_large"
	HeadersTooLarge      Kind = "headers_too_large"
	UnsupportedMediaType Kind = "unsupported_media_type"
	Invalid              Kind = "invalid"
	RateLimited          Kind = "rate_limited"
	Internal             Kind = "internal"
	Unavailable          Kind = "unavailable"
)

// Fault is an invalid value in a request. It never contains the value itself.
type Fault struct {
	Location string `json:"location" doc:"Where the value is, such as body.name or query.limit"`
	Message  string `json:"message" doc:"What is expected"`
}

// Error is an error that the client may see.
type Error struct {
	Kind    Kind
	Message string
	Faults  []Fault
	// RetryAfter is the value of the Retry-After header of RateLimited and Unavailable.
	RetryAfter time.Duration
	// Challenge is the WWW-Authenticate header of Unauthorized; empty for Bearer.
	Challenge string
	// Cause is logged and never sent to the client.
	Cause error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Message)
	for _, f := range e.Faults {
		fmt.Fprintf(&b, "; %s: %s", f.Location, f.Message)
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, " (%v)", e.Cause)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// New returns an error of a kind.
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Missing returns a NotFound such as "webhook wh_… not found".
func Missing(thing, id string) *Error { return New(NotFound, "%s %s not found", thing, id) }

// InvalidField returns an Invalid with one fault.
func InvalidField(location, format string, args ...any) *Error {
	return invalid([]Fault{{Location: location, Message: fmt.Sprintf(format, args...)}})
}

// Unavailablef returns an Unavailable with a RetryAfter of one second.
func Unavailablef(cause error, format string, args ...any) *Error {
	return &Error{Kind: Unavailable, Message: fmt.Sprintf(format, args...), RetryAfter: time.Second, Cause: cause}
}

// KindOf returns the kind of an error: that of the first *Error in its chain, else Internal, or ""
// for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Internal
}

// Faults collects the invalid values of a request, so that one response reports them all.
type Faults struct{ list []Fault }

// Add adds a fault.
func (f *Faults) Add(location, format string, args ...any) *Faults {
	f.list = append(f.list, Fault{Location: location, Message: fmt.Sprintf(format, args...)})
	return f
}

// Check adds a fault unless ok is true.
func (f *Faults) Check(ok bool, location, format string, args ...any) {
	if !ok {
		f.Add(location, format, args...)
	}
}

// Err returns an Invalid with all faults, or nil if there are none.
func (f *Faults) Err() error {
	if len(f.list) == 0 {
		return nil
	}
	return invalid(f.list)
}

func invalid(faults []Fault) *Error {
	return &Error{Kind: Invalid, Message: "the request has invalid values", Faults: faults}
}

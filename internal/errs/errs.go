// Package errs owns the one error type that crosses package borders.
//
// A store or a rule that refuses something returns an *Error; its Kind decides the HTTP status, in one map, in package web. Every
// other error is a fault of ours: it is logged whole and shown to nobody.
package errs

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind says what sort of refusal an error is. Its text is the stable `code` of the API.
type Kind string

// The kinds, one for each code of the API.
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

// Fault is one thing that is wrong with a request: where, and what would be right. It never carries the caller's value.
type Fault struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

// Error is a refusal that the caller may see.
type Error struct {
	Kind    Kind
	Message string
	Faults  []Fault
	// RetryAfter is told to the caller when it is not zero.
	RetryAfter time.Duration
	// Cause is logged and never shown.
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

// Unwrap gives the cause to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Cause }

// New makes a refusal of the given kind.
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Missing is the NotFound that every area words in the same way: "webhook wh_… not found".
func Missing(thing, id string) *Error { return New(NotFound, "%s %s not found", thing, id) }

// Wrong is an Invalid with one fault.
func Wrong(location, format string, args ...any) *Error {
	return (&Faults{}).Add(location, format, args...).Err().(*Error)
}

// Busy is an Unavailable that says when to come again.
func Busy(cause error, format string, args ...any) *Error {
	return &Error{Kind: Unavailable, Message: fmt.Sprintf(format, args...), RetryAfter: time.Second, Cause: cause}
}

// KindOf gives the kind of an error, Internal for one that is not ours, and "" for nil.
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

// Faults collects everything that is wrong with a request, so that the caller hears it at once.
type Faults struct{ list []Fault }

// Add notes one more fault.
func (f *Faults) Add(location, format string, args ...any) *Faults {
	f.list = append(f.list, Fault{Location: location, Message: fmt.Sprintf(format, args...)})
	return f
}

// Check notes a fault unless ok.
func (f *Faults) Check(ok bool, location, format string, args ...any) {
	if !ok {
		f.Add(location, format, args...)
	}
}

// Err is nil when nothing was noted, else an Invalid with all faults.
func (f *Faults) Err() error {
	if len(f.list) == 0 {
		return nil
	}
	return &Error{Kind: Invalid, Message: "the request has invalid values", Faults: f.list}
}

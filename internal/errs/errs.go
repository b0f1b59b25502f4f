// Package errs owns the type for errors that clients may see.
//
// A function that rejects a request returns an *Error. Package web derives the HTTP status from its Kind.
// All other errors are internal: we log them, and the client learns nothing about them.
package errs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Kind is an error's kind, which the API returns as its `code`.
type Kind string

// The kinds.
const (
	Malformed            Kind = "malformed"
	Unauthorized         Kind = "unauthorized"
	Forbidden            Kind = "forbidden"
	Reauthentication     Kind = "reauthentication_required"
	NotFound             Kind = "not_found"
	MethodNotAllowed     Kind = "method_not_allowed"
	Conflict             Kind = "conflict"
	PreconditionFailed   Kind = "precondition_failed"
	TooLarge             Kind = "too_large"
	HeadersTooLarge      Kind = "headers_too_large"
	UnsupportedMediaType Kind = "unsupported_media_type"
	ExpectationFailed    Kind = "expectation_failed"
	Invalid              Kind = "invalid"
	RateLimited          Kind = "rate_limited"
	Internal             Kind = "internal"
	Unavailable          Kind = "unavailable"
)

// Fault is an invalid value in a request. It never contains the value itself.
type Fault struct {
	Location string `json:"location" doc:"Where the value is, such as body.name or query.limit" example:"body.name"`
	Message  string `json:"message" doc:"What is expected" example:"expected a value; it is required"`
}

// Error is an error that the client may see.
type Error struct {
	Kind    Kind
	Message string
	// Faults has at most MaxFaults entries. Omitted counts the others.
	Faults  []Fault
	Omitted int
	// RetryAfter is the Retry-After header for RateLimited and Unavailable.
	RetryAfter time.Duration
	// Challenge is the WWW-Authenticate header for Unauthorized; empty means Bearer.
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

// New returns an error with a message for clients.
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// maxEcho is how many characters of an id an error repeats.
const maxEcho = 128

// Missing returns a NotFound such as "webhook wh_… not found". A long id is cut.
func Missing(thing, id string) *Error {
	return New(NotFound, "%s %s not found", thing, cut(id, maxEcho))
}

// cut returns the first characters, and an ellipsis if there are more.
func cut(text string, limit int) string {
	for i := range text {
		if limit == 0 {
			return text[:i] + "…"
		}
		limit--
	}
	return text
}

// InvalidField returns an Invalid with one fault.
func InvalidField(location, format string, args ...any) *Error {
	var faults Faults
	return faults.Add(location, format, args...).invalid()
}

// Unavailablef returns an Unavailable with a RetryAfter of one second.
func Unavailablef(cause error, format string, args ...any) *Error {
	return &Error{Kind: Unavailable, Message: fmt.Sprintf(format, args...), RetryAfter: time.Second, Cause: cause}
}

// exhausted names the resource behind an errno that means it has run out. Such errors end when somebody
// releases some.
var exhausted = map[syscall.Errno]string{
	syscall.EMFILE: "file descriptors", syscall.ENFILE: "file descriptors",
	syscall.ENOSPC: "space on its disk", syscall.EDQUOT: "space on its disk",
	syscall.ENOMEM: "memory", syscall.ENOBUFS: "memory for connections",
	syscall.EADDRNOTAVAIL: "ports", syscall.EAGAIN: "threads or processes",
}

// Of returns the first *Error in err's chain; err must not be nil. If there is none, Of returns an
// Unavailable if the operating system has run out of something, and an Internal otherwise.
func Of(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok && exhausted[number] != "" {
		return Unavailablef(err, "the server has no %s left at the moment", exhausted[number])
	}
	return &Error{Kind: Internal, Message: "internal error", Cause: err}
}

// KindOf returns Of(err)'s kind, or "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	return Of(err).Kind
}

// MaxFaults caps the faults that an error lists.
const MaxFaults = 100

// Faults collects a request's invalid values, so that one response can report them all. It lists the
// first MaxFaults and counts the others.
type Faults struct {
	list    []Fault
	omitted int
}

// Add adds a fault, unless there is already one for the same value, for a value that contains it, or for
// a value inside it. We know nothing about the fields of a value that is missing, too long or of another
// type. And a value with faults inside may be fine once they are corrected.
func (f *Faults) Add(location, format string, args ...any) *Faults {
	switch {
	case f.Has(location), f.HasInside(location):
	case len(f.list) == MaxFaults:
		f.omitted++
	default:
		f.list = append(f.list, Fault{Location: location, Message: fmt.Sprintf(format, args...)})
	}
	return f
}

// Has reports whether a fault is listed for the value at a location, or for a value that contains it.
func (f *Faults) Has(location string) bool {
	return slices.ContainsFunc(f.list, func(fault Fault) bool { return contains(fault.Location, location) })
}

// HasInside reports whether a fault is listed for the value at a location, or for a value inside it.
func (f *Faults) HasInside(location string) bool {
	return slices.ContainsFunc(f.list, func(fault Fault) bool { return contains(location, fault.Location) })
}

// contains reports whether inner is location, or a location inside it.
func contains(location, inner string) bool {
	rest, within := strings.CutPrefix(inner, location)
	return within && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Full reports whether the list is full.
func (f *Faults) Full() bool { return len(f.list) == MaxFaults }

// Check adds a fault unless ok is true.
func (f *Faults) Check(ok bool, location, format string, args ...any) {
	if !ok {
		f.Add(location, format, args...)
	}
}

// Within adds the faults for an error in the value at a location. If err is an Invalid, its faults'
// locations are relative to the value. Otherwise Within adds message, unless a fault inside the value
// already explains the error.
func (f *Faults) Within(location string, err error, message string) {
	var e *Error
	if !errors.As(err, &e) || len(e.Faults) == 0 {
		f.Check(err == nil || f.HasInside(location), location, "%s", message)
		return
	}
	f.addAll(location, e)
}

// AddAll adds an Invalid's faults. It reports whether err lists faults.
func (f *Faults) AddAll(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.Kind != Invalid || len(e.Faults) == 0 {
		return false
	}
	f.addAll("", e)
	return true
}

// addAll adds an error's faults, whose locations are relative to location.
func (f *Faults) addAll(location string, e *Error) {
	for _, fault := range e.Faults {
		f.Add(location+fault.Location, "%s", fault.Message)
	}
	f.omitted += e.Omitted
}

// AddCommon adds a's faults for values that have a fault in b too.
func (f *Faults) AddCommon(a, b *Faults) {
	for _, fault := range a.list {
		if b.HasInside(fault.Location) {
			f.Add(fault.Location, "%s", fault.Message)
		}
	}
}

// Err returns an Invalid with all faults, or nil if there are none.
func (f *Faults) Err() error {
	if len(f.list) == 0 {
		return nil
	}
	return f.invalid()
}

func (f *Faults) invalid() *Error {
	e := &Error{Kind: Invalid, Message: "the request has invalid values", Faults: f.list, Omitted: f.omitted}
	if f.omitted > 0 {
		e.Message = fmt.Sprintf("%s; %d more are not listed", e.Message, f.omitted)
	}
	return e
}

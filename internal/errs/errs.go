// Package errs owns the type of errors that clients may see. It imports no other package of Steward.
//
// A function that rejects a request returns an *Error. Its Kind determines the HTTP status, in
// package web. All other errors are internal: they are logged, and the client learns nothing of
// them.
package errs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Kind is the kind of an error, which the API returns as its `code`.
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
	// Faults has at most MaxFaults entries; Omitted is the number of those that were left out.
	Faults  []Fault
	Omitted int
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

// maxEcho is the number of characters of an id that an error repeats.
const maxEcho = 128

// Missing returns a NotFound such as "webhook wh_… not found". A long id is cut.
func Missing(thing, id string) *Error {
	return New(NotFound, "%s %s not found", thing, cut(id, maxEcho))
}

// cut returns the first characters of a text, and an ellipsis if there are more.
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

// exhausted says what the operating system has no more of, for errors that end when somebody returns some.
var exhausted = map[syscall.Errno]string{
	syscall.EMFILE: "file descriptors", syscall.ENFILE: "file descriptors",
	syscall.ENOSPC: "space on its disk", syscall.EDQUOT: "space on its disk",
	syscall.ENOMEM: "memory", syscall.ENOBUFS: "memory for connections",
	syscall.EADDRNOTAVAIL: "ports", syscall.EAGAIN: "threads or processes",
}

// Of returns the first *Error in the chain of an error that is not nil: else an Unavailable if the operating system is
// out of something, and an Internal for all others.
func Of(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var number syscall.Errno
	if errors.As(err, &number) && exhausted[number] != "" {
		return Unavailablef(err, "the server has no %s left at the moment", exhausted[number])
	}
	return &Error{Kind: Internal, Message: "internal error", Cause: err}
}

// KindOf returns the kind of Of, or "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	return Of(err).Kind
}

// MaxFaults is the number of faults that an error lists.
const MaxFaults = 100

// Faults collects the invalid values of a request, so that one response reports them all. It lists
// MaxFaults of them and counts the others.
type Faults struct {
	list    []Fault
	omitted int
}

// Add adds a fault, unless one was added for the same value, for a value that contains it, or for a
// value within it: nothing is known about the fields of a value that is missing, of another type or too
// long, and a value that has parts with faults is not what it will be without them.
func (f *Faults) Add(location, format string, args ...any) *Faults {
	switch {
	case f.Has(location), f.hasInside(location):
	case len(f.list) == MaxFaults:
		f.omitted++
	default:
		f.list = append(f.list, Fault{Location: location, Message: fmt.Sprintf(format, args...)})
	}
	return f
}

// Has reports whether a fault is listed for the value at a location or for one that contains it.
func (f *Faults) Has(location string) bool {
	return slices.ContainsFunc(f.list, func(fault Fault) bool { return contains(fault.Location, location) })
}

// hasInside reports whether a fault is listed for the value at a location or for one inside it.
func (f *Faults) hasInside(location string) bool {
	return slices.ContainsFunc(f.list, func(fault Fault) bool { return contains(location, fault.Location) })
}

// contains reports whether the value at a location is the one at inner or contains it.
func contains(location, inner string) bool {
	rest, within := strings.CutPrefix(inner, location)
	return within && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Full reports whether no more faults are listed.
func (f *Faults) Full() bool { return len(f.list) == MaxFaults }

// Check adds a fault unless ok is true.
func (f *Faults) Check(ok bool, location, format string, args ...any) {
	if !ok {
		f.Add(location, format, args...)
	}
}

// Within adds the faults of an error that was found in the value at a location: those of an
// Invalid, whose locations are relative to the value, or else message, unless a fault inside the
// value explains the error.
func (f *Faults) Within(location string, err error, message string) {
	var e *Error
	if !errors.As(err, &e) || len(e.Faults) == 0 {
		f.Check(err == nil || f.hasInside(location), location, "%s", message)
		return
	}
	f.addAll(location, e)
}

// AddAll adds the faults of an Invalid. It reports whether err is one that lists faults.
func (f *Faults) AddAll(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.Kind != Invalid || len(e.Faults) == 0 {
		return false
	}
	f.addAll("", e)
	return true
}

// addAll adds the faults of an error, whose locations are relative to the value at a location.
func (f *Faults) addAll(location string, e *Error) {
	for _, fault := range e.Faults {
		f.Add(location+fault.Location, "%s", fault.Message)
	}
	f.omitted += e.Omitted
}

// AddCommon adds the faults of a for whose values there is one in b too.
func (f *Faults) AddCommon(a, b *Faults) {
	for _, fault := range a.list {
		if b.hasInside(fault.Location) {
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

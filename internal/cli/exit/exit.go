// Package exit has the commands' exit codes, and an error that carries one: its message says why the
// command failed and how to go on.
package exit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// The commands' exit codes. Codes lists them for the documentation.
const (
	Failed      = 1
	Usage       = 2
	NotFound    = 3
	Denied      = 4
	Conflict    = 5
	Unavailable = 6
	Invalid     = 7
	Interrupted = 130
)

// Entry is an exit code with its meaning.
type Entry struct {
	Code    int
	Meaning string
}

// Codes returns all exit codes.
func Codes() []Entry {
	return []Entry{
		{0, "success"},
		{Failed, "the command failed for a reason that no other code stands for"},
		{Usage, "the command line or a setting is wrong, or a confirmation is needed and there is no terminal to ask on (see `--yes`)"},
		{NotFound, "something that the command names does not exist"},
		{Denied, "not signed in, or the credentials do not allow it"},
		{Conflict, "it conflicts with what is there: a name that is taken, or something that was changed in the meantime"},
		{Unavailable, "the server cannot be reached or is overloaded; try again"},
		{Invalid, "the server refused a value; the message says which"},
		{Interrupted, "interrupted with Ctrl-C"},
	}
}

// Error is an error with an exit code and advice.
type Error struct {
	Code      int
	Message   string
	Details   []string // more lines
	Advice    string   // how to go on
	RequestID string
	Cause     error
}

// Error returns the message with its advice, over several lines.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Message)
	for _, line := range e.Details {
		b.WriteString("\n  " + line)
	}
	if e.Advice != "" {
		b.WriteString("\n" + e.Advice)
	}
	if e.RequestID != "" {
		b.WriteString("\nRequest id: " + e.RequestID)
	}
	return b.String()
}

// Unwrap returns the cause, if there is one.
func (e *Error) Unwrap() error { return e.Cause }

// Usagef returns an error in the command line.
func Usagef(format string, args ...any) error {
	return &Error{Code: Usage, Message: fmt.Sprintf(format, args...)}
}

// IfInterrupted returns a command's error. If a signal ended the command, the error says what remains.
func IfInterrupted(ctx context.Context, err error, message string) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return &Error{Code: Interrupted, Message: message}
}

// Code returns the exit code for a command's error.
func Code(err error) int {
	var e *Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, context.Canceled):
		return Interrupted
	}
	return Failed
}

// OfStatus returns the exit code for a response's status.
func OfStatus(status int) int {
	switch status {
	case http.StatusNotFound:
		return NotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return Denied
	case http.StatusConflict, http.StatusPreconditionFailed:
		return Conflict
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return Unavailable
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity:
		return Invalid
	}
	return Failed
}

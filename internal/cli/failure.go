package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Exit codes of commands. Codes lists them for the documentation.
const (
	ExitFailed      = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitDenied      = 4
	ExitConflict    = 5
	ExitUnavailable = 6
	ExitInvalid     = 7
	ExitInterrupted = 130
)

// Code is an exit code with its meaning.
type Code struct {
	Code    int
	Meaning string
}

// Codes returns the exit codes of all commands.
func Codes() []Code {
	return []Code{
		{0, "success"},
		{ExitFailed, "the command failed for a reason that no other code stands for"},
		{ExitUsage, "the command line is wrong, or a confirmation is needed and there is no terminal to ask on (see `--yes`)"},
		{ExitNotFound, "something that the command names does not exist"},
		{ExitDenied, "not signed in, or the credentials do not allow it"},
		{ExitConflict, "it conflicts with what is there: a name that is taken, or something that was changed in the meantime"},
		{ExitUnavailable, "the server cannot be reached or is overloaded; try again"},
		{ExitInvalid, "the server refused a value; the message says which"},
		{ExitInterrupted, "interrupted with Ctrl-C"},
	}
}

// failure is an error with an exit code and advice.
type failure struct {
	code      int
	message   string
	details   []string // more lines
	advice    string   // what to do next
	requestID string
	cause     error
}

// Error returns the message with its advice, over several lines.
func (f *failure) Error() string {
	var b strings.Builder
	b.WriteString(f.message)
	for _, line := range f.details {
		b.WriteString("\n  " + line)
	}
	if f.advice != "" {
		b.WriteString("\n" + f.advice)
	}
	if f.requestID != "" {
		b.WriteString("\nRequest id: " + f.requestID)
	}
	return b.String()
}

// Unwrap returns the cause, if there is one.
func (f *failure) Unwrap() error { return f.cause }

// usagef returns an error of the command line.
func usagef(format string, args ...any) error {
	return &failure{code: ExitUsage, message: fmt.Sprintf(format, args...)}
}

// ExitCode returns the exit code for an error of a command.
func ExitCode(err error) int {
	var f *failure
	switch {
	case err == nil:
		return 0
	case errors.As(err, &f):
		return f.code
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	}
	return ExitFailed
}

// codeOf returns the exit code for the status of a response.
func codeOf(status int) int {
	switch status {
	case http.StatusNotFound:
		return ExitNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return ExitDenied
	case http.StatusConflict, http.StatusPreconditionFailed:
		return ExitConflict
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return ExitUnavailable
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity:
		return ExitInvalid
	}
	return ExitFailed
}

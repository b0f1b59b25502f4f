package libsql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"zombiezen.com/go/sqlite"

	"steward/internal/errs"
)

// failure is an error that the client sees. Its code is that of libSQL's server: for SQLite's errors,
// the name of the primary result code.
type failure struct {
	Message string `json:"message"`
	Code    string `json:"code"`
	// ExtendedCode is the name of SQLite's extended result code, if it says more than Code.
	ExtendedCode string `json:"extended_code,omitempty"`

	status int // of a response that consists of the failure; 0 if it is the result of a statement
}

func (f *failure) Error() string { return f.Code + ": " + f.Message }

func failf(code, format string, args ...any) *failure {
	return &failure{Code: code, Message: fmt.Sprintf(format, args...)}
}

// withStatus returns the failure as that of a whole request.
func (f *failure) withStatus(status int) *failure {
	return &failure{Message: f.Message, Code: f.Code, ExtendedCode: f.ExtendedCode, status: status}
}

// append appends the JSON of the failure.
func (f *failure) append(to []byte) []byte {
	text, _ := json.Marshal(f) // strings can always be encoded
	return append(to, text...)
}

// The causes for which a running statement is interrupted.
var (
	errStatementTime   = failf("SQLITE_INTERRUPT", "the statement took too long and its transaction was rolled back")
	errTransactionTime = failf("TRANSACTION_TIMEOUT", "the transaction took too long and was rolled back")
	errLocked          = failf("SQLITE_BUSY", "SQLite error: database is locked")
	errDiskFull        = failf("SQLITE_FULL", "the server's disk is almost full")
	errOutOfMemory     = failf("SERVER_BUSY", "the server has no memory left for requests of this size: try again")
	errClosed          = failf("STREAM_CLOSED", "the database was deleted, closed or has new credentials")
)

// explain returns the failure of a statement. An interruption is explained by its cause.
func explain(ctx context.Context, err error) *failure {
	var known *failure
	if errors.As(err, &known) {
		return known
	}
	code := sqlite.ErrCode(err)
	if interrupted := code.ToPrimary() == sqlite.ResultInterrupt || code == sqlite.ResultBusy; interrupted && ctx.Err() != nil {
		if errors.As(context.Cause(ctx), &known) {
			return known
		}
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			return errStatementTime // the caller's limit
		}
		return failf("SQLITE_INTERRUPT", "the client has gone")
	}
	if offset, ok := sqlite.ErrorOffset(err); ok {
		return failf("SQL_INPUT_ERROR", "SQLite input error: %s (at offset %d)", message(err, code), offset)
	}
	f := failf(code.ToPrimary().String(), "SQLite error: %s", message(err, code))
	if name := code.String(); code != code.ToPrimary() && strings.HasPrefix(name, "SQLITE_") { // else the library does not name it
		f.ExtendedCode = name
	}
	return f
}

// explainOpen returns Unavailable if SQLite could not open a file for want of descriptors, memory or space, which it does
// not tell apart.
func explainOpen(err error) error {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCantOpen, sqlite.ResultNoMem, sqlite.ResultFull, sqlite.ResultIOErr:
		return errs.Unavailablef(err, "the database cannot be opened at the moment")
	}
	return err
}

// message returns what SQLite says, without what the library writes around it.
func message(err error, code sqlite.ResultCode) string {
	general := code.Message()
	if _, detail, ok := strings.Cut(err.Error(), general+": "); ok {
		return detail
	}
	if code == sqlite.ResultError {
		return strings.TrimPrefix(err.Error(), "sqlite: step: ")
	}
	return general
}

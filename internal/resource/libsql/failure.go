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

// failure is an error for the client. Its code is the one that libSQL's server uses: for SQLite's errors,
// the name of the primary result code.
type failure struct {
	Message string `json:"message"`
	Code    string `json:"code"`
	// ExtendedCode names SQLite's extended result code, if it says more than Code.
	ExtendedCode string `json:"extended_code,omitempty"`

	status int // HTTP status if the whole request failed; 0 if one statement did
}

func (f *failure) Error() string { return f.Code + ": " + f.Message }

func failf(code, format string, args ...any) *failure {
	return &failure{Code: code, Message: fmt.Sprintf(format, args...)}
}

// withStatus returns the failure for a whole request.
func (f *failure) withStatus(status int) *failure {
	return &failure{Message: f.Message, Code: f.Code, ExtendedCode: f.ExtendedCode, status: status}
}

// append appends the failure as JSON.
func (f *failure) append(to []byte) []byte {
	text, _ := json.Marshal(f) // strings can always be encoded
	return append(to, text...)
}

// Reasons for interrupting a running statement.
var (
	errStatementTime   = failf("SQLITE_INTERRUPT", "the statement took too long and its transaction was rolled back")
	errTransactionTime = failf("TRANSACTION_TIMEOUT", "the transaction took too long and was rolled back")
	errLocked          = failf("SQLITE_BUSY", "SQLite error: database is locked")
	errDiskFull        = failf("SQLITE_FULL", "the server's disk is almost full")
	errOutOfMemory     = failf("SERVER_BUSY", "the server has no memory left for requests of this size: try again")
	errClosed          = failf("STREAM_CLOSED", "the database was deleted, closed or has new credentials")
)

// explain converts a statement's error to a failure. It explains an interruption by its cause.
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
	if name := code.String(); code != code.ToPrimary() && strings.HasPrefix(name, "SQLITE_") { // the library has no name for other codes
		f.ExtendedCode = name
	}
	return f
}

// explainOpen returns Unavailable if SQLite could not open a file because descriptors, memory or space
// ran out. SQLite does not tell these apart.
func explainOpen(err error) error {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCantOpen, sqlite.ResultNoMem, sqlite.ResultFull, sqlite.ResultIOErr:
		return errs.Unavailablef(err, "the database cannot be opened at the moment")
	}
	return err
}

// message returns SQLite's message, without the text that the library adds.
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

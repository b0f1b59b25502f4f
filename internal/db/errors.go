package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	driver "modernc.org/sqlite"
	"zombiezen.com/go/sqlite"

	"steward/internal/errs"
)

// IsUnique reports whether err is a violated primary key or unique index.
func IsUnique(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code == "23505"
	}
	code := sqliteCode(err)
	return code == sqlite.ResultConstraintUnique || code == sqlite.ResultConstraintPrimaryKey
}

// checkText returns errs.Invalid for text that PostgreSQL cannot store. SQLite could, but we refuse
// it on both, so that rows can move from one to the other.
func checkText(args []any) error {
	for _, arg := range args {
		var s string
		switch v := arg.(type) {
		case string:
			s = v
		case *string:
			if v == nil {
				continue
			}
			s = *v
		default:
			continue
		}
		if strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) {
			return errBadText(nil)
		}
	}
	return nil
}

func errBadText(cause error) error {
	e := errs.New(errs.Invalid, "text must be UTF-8 without NUL characters")
	e.Cause = cause
	return e
}

// sqliteCode returns an error's extended result code, whether it comes from a migration or from this
// package's connections. It returns ResultError for errors from elsewhere, and ResultOK for nil.
func sqliteCode(err error) sqlite.ResultCode {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return sqlite.ResultCode(e.Code())
	}
	return sqlite.ErrCode(err)
}

// explainSQLite turns disk errors and a busy database into errs.Unavailable.
func explainSQLite(err error) error {
	switch sqliteCode(err).ToPrimary() {
	case sqlite.ResultBusy, sqlite.ResultLocked:
		return errs.Unavailablef(err, "the database is busy")
	case sqlite.ResultFull:
		return errs.Unavailablef(err, "the disk of the database is full")
	case sqlite.ResultIOErr, sqlite.ResultNoMem, sqlite.ResultCantOpen, sqlite.ResultReadOnly:
		return errs.Unavailablef(err, "the database cannot be used at the moment")
	}
	return err
}

// explainPostgres turns lost connections and overload into errs.Unavailable, and bad text into
// errs.Invalid. It returns other errors unchanged.
func explainPostgres(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if errors.Is(err, errPooler) {
		return errPooler
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case pg.Code == "22021", pg.Code == "22P05":
			return errBadText(err)
		case isDown(pg.Code):
			return errs.Unavailablef(err, "the database cannot be used at the moment")
		case pg.Code == "57014", pg.Code == "25P03": // statement_timeout, idle_in_transaction_session_timeout
			return errs.Unavailablef(err, "the database took too long")
		case pg.Code == "55P03":
			return errs.Unavailablef(err, "the rows are locked by another request")
		}
		return err
	}
	if isLost(err) {
		return errs.Unavailablef(err, "the database cannot be reached")
	}
	return err
}

// isDown reports whether a SQLSTATE says that the server is starting, shutting down, out of
// resources, or read-only.
func isDown(code string) bool {
	return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "53") || strings.HasPrefix(code, "57P") ||
		code == "25006"
}

// isLost reports whether err means that the connection was lost.
func isLost(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || pgconn.SafeToRetry(err)
}

var errOutcomeUnknown = errors.New("the outcome of the commit is unknown")

// outcomeUnknown returns the error for a commit that may or may not have succeeded. It hides its
// cause from errors.Is: a timeout, for example, would look like an error after which nothing was
// written.
func outcomeUnknown(cause error) error {
	e := errs.New(errs.Internal, "the connection to the database was lost during the commit: it is not known whether the change was kept")
	e.Cause = fmt.Errorf("%w: %s", errOutcomeUnknown, cause.Error())
	return e
}

// IsOutcomeUnknown reports whether Write returned err although it may have committed.
func IsOutcomeUnknown(err error) bool { return errors.Is(err, errOutcomeUnknown) }

// mustRetry reports whether the server asks us to run the transaction again: a serialization
// failure, also CockroachDB's, or a deadlock.
func mustRetry(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01" || pg.Code == "CR000")
}

package db

import (
	"context"
	"errors"
	"time"

	"steward/internal/errs"
)

// limits bounds the statements in a transaction, or a read outside one.
type limits struct {
	// respond limits how long this process waits for a connection, and for each statement.
	respond time.Duration
	// statement limits how long the server works on a statement. It is shorter than respond, so that
	// a slow statement does not cost us the connection.
	statement time.Duration
	// lock limits how long a statement waits for a lock, such as a row's.
	lock time.Duration
	// idle limits how long a transaction may wait for its next statement. Then the server ends it:
	// its process may be frozen or unplugged, and others wait for its locks.
	idle time.Duration
}

var (
	shortLimits = limits{respond: 10 * time.Second, statement: 9 * time.Second, lock: 5 * time.Second, idle: 10 * time.Second}
	longLimits  = limits{respond: 11 * time.Minute, statement: 10 * time.Minute, lock: 30 * time.Second, idle: time.Minute}
	// migrationLimits does not limit a statement: it may have to rewrite a large table.
	migrationLimits = limits{lock: time.Minute, idle: time.Minute}
	listenLimits    = limits{statement: time.Second, lock: time.Second, idle: time.Second}
)

type limitsKey struct{}

// Long returns a context for work that nobody waits for, such as retention or a replay: each
// statement may take 10 minutes. Without it a statement ends after 10 seconds with errs.Unavailable.
func Long(ctx context.Context) context.Context {
	return context.WithValue(ctx, limitsKey{}, longLimits)
}

func limitsOf(ctx context.Context) limits {
	if l, ok := ctx.Value(limitsKey{}).(limits); ok {
		return l
	}
	return shortLimits
}

// errTooSlow is the cause of a context that its limits ended.
var errTooSlow = errors.New("the database did not respond in time")

// limited returns a context that ends when a statement must have ended.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limitsOf(ctx).respond, errTooSlow)
}

// explainLimit turns the error into errs.Unavailable if ctx, from limited, timed out on its own. It
// returns other errors unchanged.
func explainLimit(ctx context.Context, err error) error {
	if err == nil || !errors.Is(context.Cause(ctx), errTooSlow) {
		return err
	}
	return errs.Unavailablef(err, "%v", errTooSlow)
}

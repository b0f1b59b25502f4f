package libsql

import (
	"context"
	"time"

	"steward/internal/errs"
)

const (
	tick = 50 * time.Millisecond
	// verifyAgain is when databases that could not be looked up are verified again.
	verifyAgain = time.Second
)

// Forget empties the cache of lookups and has Run close what may not be used any more. It is called
// when databases were deleted or have new credentials.
func (e *Engine) Forget() {
	e.lookups.Forget()
	select {
	case e.stale <- struct{}{}:
	default: // asked already
	}
}

// Run verifies open databases after Forget, closes idle ones, interrupts statements that fill the disk
// and logs heavy use, until ctx ends. It rests while no database is open.
func (e *Engine) Run(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.stale:
			e.verify(ctx)
		case <-ticker.C:
			e.guardDisk()
			e.closeIdle()
			e.reportHeavy()
			if len(e.openDatabases()) == 0 {
				ticker.Stop()
			}
		case <-e.busy:
			ticker.Reset(tick)
		}
	}
}

// verify closes open databases that cannot be used any more, and what was opened with old credentials.
// If one cannot be looked up, Run verifies again.
func (e *Engine) verify(ctx context.Context) {
	e.verifyPassed(ctx)
	for _, d := range e.openDatabases() {
		p, err := e.lookup(ctx, d.id)
		if err == nil {
			err = e.active(ctx, p)
		}
		switch {
		case errs.KindOf(err) == errs.NotFound || errs.KindOf(err) == errs.Forbidden:
			d.close()
			e.forgetClosed(d)
			e.usage.Forget(d.id)
		case err != nil:
			d.log().Warn("verify the connections to a database", "error", err)
			time.AfterFunc(verifyAgain, e.Forget)
		default:
			d.closeOthers(tokenOf(p.Password))
		}
	}
}

// verifyPassed ends requests to other nodes that were made with old credentials, or whose database cannot be
// used any more.
func (e *Engine) verifyPassed(ctx context.Context) {
	for _, id := range e.passed.ids() {
		p, err := e.lookup(ctx, id)
		if err == nil {
			err = e.active(ctx, p)
		}
		switch {
		case errs.KindOf(err) == errs.NotFound || errs.KindOf(err) == errs.Forbidden:
			e.passed.cut(id, token{})
			e.usage.Forget(id)
		case err != nil:
			e.Log.Warn("verify requests that were passed on", "database", id, "error", err)
			time.AfterFunc(verifyAgain, e.Forget)
		default:
			e.passed.cut(id, tokenOf(p.Password))
		}
	}
}

func (e *Engine) closeIdle() {
	for _, d := range e.openDatabases() {
		if d.closeIdle(e.now().Add(-e.limits.FileIdle)) {
			e.forgetClosed(d)
		}
	}
}

// guardDisk interrupts what has been running for some time while the disk is almost full, since it may
// be writing, or sorting with temporary files. It also returns the space of logs.
func (e *Engine) guardDisk() {
	now := e.now()
	if !e.disk.Low(now) {
		return
	}
	for _, d := range e.openDatabases() {
		d.cancelSince(now.Add(-2*tick), errDiskFull)
		d.truncateLog()
	}
}

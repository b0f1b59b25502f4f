package libsql

import (
	"context"
	"time"

	"steward/internal/errs"
)

const (
	tick = 50 * time.Millisecond
	// verifyAgain is the pause before Run verifies again after a failed lookup.
	verifyAgain = time.Second
)

// Forget clears the lookup cache, and makes Run close connections that are no longer allowed. Call it
// when databases were deleted or have new credentials.
func (e *Engine) Forget() {
	e.lookups.Forget()
	select {
	case e.stale <- struct{}{}:
	default: // Run already knows
	}
}

// Run works until ctx ends. It verifies open databases after Forget, closes idle ones, interrupts
// statements that fill the disk, and logs heavy use. It rests while no database is open.
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

// verify closes databases that are no longer usable, and streams that used old credentials. If a lookup
// fails, Run verifies again.
func (e *Engine) verify(ctx context.Context) {
	e.verifyPassed(ctx)
	for _, d := range e.openDatabases() {
		p, err := e.lookup(ctx, d.id)
		if err == nil {
			err = e.Active.Check(ctx, p.OrgID)
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

// verifyPassed ends forwarded requests that used old credentials, or whose database is no longer usable.
func (e *Engine) verifyPassed(ctx context.Context) {
	for _, id := range e.passed.ids() {
		p, err := e.lookup(ctx, id)
		if err == nil {
			err = e.Active.Check(ctx, p.OrgID)
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

// guardDisk protects an almost full disk. It interrupts statements that have been running for a while,
// since they may be writing, or sorting with temporary files, and it truncates logs.
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

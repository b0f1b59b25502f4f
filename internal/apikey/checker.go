package apikey

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"sync/atomic"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/stamp"
)

// Checker authenticates requests by their API key, with a cache.
type Checker struct {
	Store *Store

	cache db.Cache[[sha256.Size]byte, *entry]

	usedMu sync.Mutex
	used   []*entry // since the last Flush
}

// entry is a cached key.
type entry struct {
	caller *auth.Caller
	usedAt atomic.Int64
	noted  atomic.Bool // in Checker.used
}

// use is a key's last use.
type use struct {
	orgID, keyID string
	at           stamp.Time
}

// errRefused does not say why a key is refused.
var errRefused = errs.New(errs.Unauthorized, "the API key is missing, unknown or expired")

// Authenticate returns the caller for a key. It returns Unauthorized if the key is unknown or has expired.
func (c *Checker) Authenticate(ctx context.Context, value string) (*auth.Caller, error) {
	e, err := c.entry(ctx, value)
	if errors.Is(err, db.ErrNoRows) {
		return nil, errRefused
	}
	if err != nil {
		return nil, err
	}
	now := stamp.Of(c.Store.Now())
	if expires := e.caller.KeyExpires; expires != nil && *expires <= now {
		return nil, errRefused
	}
	c.note(e, now)
	return e.caller, nil
}

// entry returns the cached key, or reads it. It returns ErrNoRows if there is none, without a query if
// the value cannot be a key.
func (c *Checker) entry(ctx context.Context, value string) (*entry, error) {
	hash := sha256.Sum256([]byte(value))
	return c.cache.Get(hash, func() (*entry, error) {
		if !Plausible(value) {
			return nil, db.ErrNoRows
		}
		caller, err := c.Store.lookup(ctx, hash[:])
		if err != nil {
			return nil, err
		}
		return &entry{caller: caller}, nil
	})
}

// Forget empties the cache. Call it when a key, a role or a membership has changed.
func (c *Checker) Forget() { c.cache.Forget() }

// note keeps the time for the next Flush. Between two flushes, it takes the lock at most once per key.
func (c *Checker) note(e *entry, now stamp.Time) {
	e.usedAt.Store(int64(now))
	if e.noted.CompareAndSwap(false, true) {
		c.usedMu.Lock()
		c.used = append(c.used, e)
		c.usedMu.Unlock()
	}
}

// flushBatch caps the uses that one transaction writes.
const flushBatch = 500

// Flush writes the times of last use. It keeps those that it cannot write for the next call.
func (c *Checker) Flush(ctx context.Context) error {
	c.usedMu.Lock()
	pending := c.used
	c.used = nil
	c.usedMu.Unlock()
	for len(pending) > 0 {
		n := min(len(pending), flushBatch)
		if err := c.Store.touch(ctx, uses(pending[:n])); err != nil {
			c.usedMu.Lock()
			c.used = append(c.used, pending...)
			c.usedMu.Unlock()
			return err
		}
		pending = pending[n:]
	}
	c.Store.Forget()
	return nil
}

func uses(entries []*entry) []use {
	all := make([]use, len(entries))
	for i, e := range entries {
		e.noted.Store(false) // before we read the time, so that a use in between is noted again
		all[i] = use{orgID: e.caller.OrgID, keyID: e.caller.KeyID, at: stamp.Time(e.usedAt.Load())}
	}
	return all
}

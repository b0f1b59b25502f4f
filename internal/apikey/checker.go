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

// Checker tells whom a key belongs to, from memory where it can.
type Checker struct {
	Store *Store

	known db.Cache[[sha256.Size]byte, *entry]

	useMu sync.Mutex
	used  []*entry
}

type entry struct {
	caller  *auth.Caller
	expires *stamp.Time
	usedAt  atomic.Int64
	noted   atomic.Bool
}

type use struct {
	orgID, keyID string
	at           stamp.Time
}

// refused is the same for every key that is not good, whatever the reason.
func refused() error {
	return errs.New(errs.Unauthorized, "the API key is missing, unknown or expired")
}

// Authenticate gives the caller of a key, or Unauthorized.
func (c *Checker) Authenticate(ctx context.Context, value string) (*auth.Caller, error) {
	e, err := c.entry(ctx, value)
	if errors.Is(err, db.ErrNoRows) {
		return nil, refused()
	}
	if err != nil {
		return nil, err
	}
	now := stamp.Of(c.Store.Now())
	if e.expires != nil && *e.expires <= now {
		return nil, refused()
	}
	c.note(e, now)
	return e.caller, nil
}

// entry gives what is known of a key, or ErrNoRows; a value that cannot be a key is not looked up.
func (c *Checker) entry(ctx context.Context, value string) (*entry, error) {
	hash := sha256.Sum256([]byte(value))
	return c.known.Get(hash, func() (*entry, error) {
		if !Plausible(value) {
			return nil, db.ErrNoRows
		}
		caller, expires, err := c.Store.lookup(ctx, hash[:])
		return &entry{caller: caller, expires: expires}, err
	})
}

// Forget empties the cache; it is called when a key, a role or a membership changed.
func (c *Checker) Forget() { c.known.Forget() }

// note remembers a use until the next Flush; it takes a lock once per key and flush.
func (c *Checker) note(e *entry, now stamp.Time) {
	e.usedAt.Store(int64(now))
	if e.noted.CompareAndSwap(false, true) {
		c.useMu.Lock()
		c.used = append(c.used, e)
		c.useMu.Unlock()
	}
}

// Flush writes the uses since the last one, for everybody to read. What cannot be written is kept for the next time.
func (c *Checker) Flush(ctx context.Context) error {
	c.useMu.Lock()
	batch := c.used
	c.used = nil
	c.useMu.Unlock()
	for len(batch) > 0 {
		n := min(len(batch), 500)
		if err := c.Store.touch(ctx, usesOf(batch[:n])); err != nil {
			c.useMu.Lock()
			c.used = append(c.used, batch...)
			c.useMu.Unlock()
			return err
		}
		batch = batch[n:]
	}
	c.Store.Forget()
	return nil
}

func usesOf(entries []*entry) []use {
	uses := make([]use, len(entries))
	for i, e := range entries {
		e.noted.Store(false) // before reading the time: a use in between is noted anew
		uses[i] = use{orgID: e.caller.OrgID, keyID: e.caller.KeyID, at: stamp.Time(e.usedAt.Load())}
	}
	return uses
}

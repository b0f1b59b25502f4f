package idempotency

import (
	"cmp"
	"context"
	"errors"
	"time"

	"steward/internal/db"
	"steward/internal/stamp"
)

// A claim that is committed before its request's effects has no response while these take place.
// Until then its request renews it. A repeat that has waited for maxWait without seeing a renewal
// takes the claim over: the process has died, or was stopped for as long. We never compare with
// another process's clock. A request that has lost its claim cannot store a response, and so its
// transaction fails.

const (
	renewEvery = 2 * time.Second
	pollEvery  = 250 * time.Millisecond
)

func (s *Store) maxWait() time.Duration { return cmp.Or(s.wait, maxWait) }

// Claim claims the request's key before effects outside the database begin. If another request has
// the key, Claim waits for it. It returns Conflict if that one succeeded, and Unavailable if it
// takes too long. Without an Idempotency-Key, Claim does nothing.
func Claim(ctx context.Context) error {
	p := of(ctx)
	if p == nil {
		return nil
	}
	if err := p.await(ctx); err != nil {
		return err
	}
	p.claimed = true
	p.startRenewing(ctx)
	return nil
}

// await commits the claim as soon as no other request has the key. It goes on after its client is
// gone: a proxy may cut every repeat before maxWait, and then a dead process would keep the key.
func (p *pending) await(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	timeout := time.NewTimer(p.store.maxWait())
	defer timeout.Stop()
	var first *stored // another request's claim, as we first saw it
	for {
		found, err := p.claim.get(p.store.DB.Read(ctx))
		if err != nil {
			return err
		}
		if found == nil || found.status != 0 {
			if err := p.commit(ctx, 0); !errors.Is(err, errBusy) {
				return err
			}
		} else if first == nil {
			first = found
		}
		select {
		case <-poll.C:
		case <-timeout.C:
			if first == nil {
				return errBusy
			}
			return p.commit(ctx, first.createdAt)
		}
	}
}

// commit commits the claim. Errors are write's.
func (p *pending) commit(ctx context.Context, dead stamp.Time) error {
	return p.write(ctx, dead, func(*db.Tx) error { return nil })
}

// startRenewing renews the claim until stop is called.
func (p *pending) startRenewing(ctx context.Context) {
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	p.stopped = make(chan struct{})
	go func() {
		defer close(p.stopped)
		ticker := time.NewTicker(cmp.Or(p.store.renew, renewEvery))
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				// After an error the next renewal may be in time. If not, the claim is lost.
				_ = p.store.DB.Write(ctx, func(tx *db.Tx) error { return p.claim.renew(tx, stamp.Of(p.store.Now())) })
			case <-ctx.Done():
				return
			}
		}
	}()
}

// forget deletes a failed request's claim. If that fails, a repeat takes it over.
func (p *pending) forget() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.r.Context()), p.store.maxWait())
	defer cancel()
	_ = p.store.DB.Write(ctx, func(tx *db.Tx) error { return p.claim.delete(tx) })
}

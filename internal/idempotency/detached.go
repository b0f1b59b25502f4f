package idempotency

import (
	"context"
	"net/http"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/web"
)

// A detached request commits its claim first, without a response, then runs, and then stores the
// response: in the transaction of the handler that calls Keep, or after it. A concurrent repeat waits
// for the response. A claim whose process has died is taken over after abandonAfter.

const (
	// abandonAfter is longer than any request takes.
	abandonAfter = 6 * time.Minute
	// waitFor is how long a repeat waits for the first request.
	waitFor   = 30 * time.Second
	pollEvery = 100 * time.Millisecond
	// endTimeout bounds what is written after a request whose client may have gone.
	endTimeout = 10 * time.Second
)

// detached is a detached request.
type detached struct {
	store *Store
	claim claim
	r     *http.Request
	kept  bool
}

type detachedKey struct{}

// Keep stores the response of a detached request in a transaction of its handler, so that it is stored
// if and only if the effects are. It does nothing for other requests.
func Keep(tx *db.Tx, status int, value any) error {
	d, ok := tx.Context().Value(detachedKey{}).(*detached)
	if !ok {
		return nil
	}
	res := &response{header: http.Header{}}
	web.Write(res, d.r, status, value)
	if err := d.store.store(tx, d.claim, res); err != nil {
		return err
	}
	tx.OnCommit(func() { d.kept = true })
	return nil
}

func (s *Store) serveDetached(w http.ResponseWriter, r *http.Request, c claim, next http.Handler) {
	stored, err := s.await(r.Context(), c)
	if err != nil {
		web.Fail(w, r, err)
		return
	}
	if stored != nil {
		stored.writeTo(w)
		return
	}
	res, err := s.runDetached(r, c, next)
	if err != nil {
		web.Fail(w, r, err)
		return
	}
	res.writeTo(w)
}

// await claims the key, or returns the response of the request that has it.
func (s *Store) await(ctx context.Context, c claim) (*response, error) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	timeout := time.NewTimer(waitFor)
	defer timeout.Stop()
	for {
		stored, claimed, err := s.tryClaim(ctx, c)
		if err != nil || stored != nil || claimed {
			return stored, err
		}
		select {
		case <-ticker.C:
		case <-timeout.C:
			return nil, errs.Unavailablef(nil, "a request with this Idempotency-Key is still being processed")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryClaim claims the key, or returns the stored response, or neither while another request runs.
func (s *Store) tryClaim(ctx context.Context, c claim) (stored *response, claimed bool, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := c.abandon(tx, c.createdAt.Add(-abandonAfter)); err != nil {
			return err
		}
		if claimed, err = c.insert(tx); err != nil || claimed {
			return err
		}
		stored, err = s.replay(tx, c)
		return err
	})
	return stored, claimed, err
}

// runDetached runs the handler and stores its response, unless the handler has. A request that fails
// leaves no claim.
func (s *Store) runDetached(r *http.Request, c claim, next http.Handler) (*response, error) {
	d := &detached{store: s, claim: c, r: r}
	res := &response{header: http.Header{}, status: http.StatusInternalServerError}
	after := context.WithoutCancel(r.Context())
	defer func() {
		if res.status >= 300 { // also if next panics
			_ = s.forget(after, c) // else a repeat takes it over later
		}
	}()
	next.ServeHTTP(res, r.WithContext(context.WithValue(r.Context(), detachedKey{}, d)))
	if d.kept || res.status >= 300 {
		return res, nil
	}
	limited, cancel := context.WithTimeout(after, endTimeout)
	defer cancel()
	return res, s.DB.Write(limited, func(tx *db.Tx) error { return s.store(tx, c, res) })
}

// forget deletes a claim that has no response.
func (s *Store) forget(ctx context.Context, c claim) error {
	limited, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	return s.DB.Write(limited, func(tx *db.Tx) error { return c.abandon(tx, c.createdAt) })
}

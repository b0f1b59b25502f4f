// Package idempotency replays the stored response to a POST that is repeated with the same
// Idempotency-Key.
//
// Serve looks for a response stored under the key, and calls the handler if there is none. The
// handler runs outside any transaction, and tells us where its effects begin:
//
//   - Once, if they are in the database: one transaction claims the key, makes the effects, and
//     stores the response. So the response is stored if and only if its effects are. A concurrent
//     repeat waits for that transaction: on SQLite for the writer, on PostgreSQL for the row.
//   - Claim, if they are elsewhere, such as in an engine (claim.go): the claim is committed before
//     they begin. Keep stores the response in the transaction that makes them visible, if there is
//     one.
//   - Neither, if it has none, such as a dry run.
//
// If the response is not stored by then, Serve stores it after the handler. We store only 2xx
// responses; any other frees its key, for the same request, which runs again, or for another one. A
// repeat that has waited for it runs, too.
package idempotency

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/seal"
	"steward/internal/stamp"
	"steward/internal/web"
)

const (
	// TTL limits how long we keep a response.
	TTL = 24 * time.Hour
	// maxWait limits how long a repeat waits for the first request, and a request for the database.
	maxWait = 10 * time.Second
)

var (
	// errStored is returned to a handler whose request another one executed meanwhile; Serve
	// replaces it by that one's response.
	errStored = errs.New(errs.Conflict, "another request with this Idempotency-Key was executed in the meantime")
	// errFree is returned to a repeat that has waited for a request that failed.
	errFree      = errors.New("idempotency: the key is free again")
	errBusy      = errs.New(errs.Unavailable, "a request with this Idempotency-Key is still being processed")
	errOtherBody = errs.InvalidField("header.Idempotency-Key", "this key was already used with a different body")
)

// Store keeps responses, sealed since they may contain secrets.
type Store struct {
	DB   *db.DB
	Ring *seal.Ring
	Now  func() time.Time

	// wait and renew replace maxWait and renewEvery in tests.
	wait  time.Duration
	renew time.Duration
}

// pending is a request whose response is not stored yet. Its handler has it in the context.
type pending struct {
	store  *Store
	claim  claim
	r      *http.Request
	status int // if successful, on the root face
	// claimed is true if the claim was committed without a response. We renew it until stop is called, and
	// then close stopped.
	claimed bool
	stop    context.CancelFunc
	stopped chan struct{}
	// kept is the response that the handler stored in a transaction.
	kept *response
}

type pendingKey struct{}

// of returns ctx's request, or nil if that has no Idempotency-Key.
func of(ctx context.Context) *pending {
	p, _ := ctx.Value(pendingKey{}).(*pending)
	return p
}

// Serve writes the response stored for a key, or calls the handler and stores its response. It
// implements web.Idempotent.
func (s *Store) Serve(w http.ResponseWriter, r *http.Request, k web.Keyed) {
	res, err := s.serve(r, k)
	if err != nil {
		web.Fail(w, r, err)
		return
	}
	res.writeTo(w)
}

func (s *Store) serve(r *http.Request, k web.Keyed) (*response, error) {
	if err := checkKey(k.Key); err != nil {
		return nil, err
	}
	p := &pending{store: s, claim: newClaim(r, k.Key, k.Body, stamp.Of(s.Now())), r: r, status: k.Status}
	earlier, err := s.replay(r.Context(), p.claim)
	if err != nil || earlier != nil {
		return earlier, err
	}
	return p.run(k.Next)
}

func checkKey(key string) error {
	ok := key != "" && len(key) <= 255
	for _, c := range []byte(key) {
		ok = ok && c >= 0x20 && c < 0x7f
	}
	if !ok {
		return errs.InvalidField("header.Idempotency-Key", "expected 1 to 255 printable ASCII characters")
	}
	return nil
}

// newClaim scopes a key to its caller, method and path. The path includes the face's prefix, since
// the response depends on it.
func newClaim(r *http.Request, key string, body []byte, now stamp.Time) claim {
	caller := auth.From(r.Context())
	who := caller.KeyID + caller.ClientID + "/" + caller.UserID
	path := web.FaceOf(r.Context()).Prefix + r.URL.RequestURI()
	hash := sha256.Sum256(body)
	return claim{
		orgID:    caller.OrgID,
		scope:    seal.Hash(fmt.Sprintf("%s\n%s\n%s\n%s", who, r.Method, path, key)),
		bodyHash: hash[:],
		owner:    []byte(id.Secret(22)),
		now:      now,
	}
}

// replay returns the stored response, or nil if there is none. It returns Invalid if that answered
// another body.
func (s *Store) replay(ctx context.Context, c claim) (*response, error) {
	found, err := c.get(s.DB.Read(ctx))
	if err != nil || found == nil || found.createdAt < c.now.Add(-TTL) {
		return nil, err
	}
	if found.status == 0 {
		return nil, nil // the handler waits, where its effects begin
	}
	if !bytes.Equal(found.bodyHash, c.bodyHash) {
		return nil, errOtherBody
	}
	return openResponse(s.Ring, found.status, found.answer)
}

// run calls the handler, and returns its response once that is stored.
func (p *pending) run(next http.Handler) (*response, error) {
	res := &response{header: http.Header{}, status: http.StatusInternalServerError}
	defer func() {
		if !p.claimed {
			return
		}
		p.stop()
		<-p.stopped
		if res.status >= 300 { // even if next panics
			p.forget()
		}
	}()
	ctx := context.WithValue(p.r.Context(), pendingKey{}, p)
	next.ServeHTTP(res, p.r.WithContext(ctx))
	switch {
	case p.kept != nil:
		return p.kept, nil
	case res.status < 300:
		return p.keepAlone(res)
	case res.status < 500: // perhaps because another request already had these effects
		return p.earlierOr(res), nil
	}
	return res, nil
}

// earlierOr returns another request's stored response, or res if there is none.
func (p *pending) earlierOr(res *response) *response {
	earlier, err := p.store.replay(context.WithoutCancel(p.r.Context()), p.claim)
	if err != nil || earlier == nil {
		return res
	}
	return earlier
}

// keepAlone stores the response to a request that had no effects in the database. If that fails
// after effects elsewhere, it returns the response nevertheless: otherwise the client would repeat
// the request.
func (p *pending) keepAlone(res *response) (*response, error) {
	ctx := context.WithoutCancel(p.r.Context())
	sealed, err := res.seal(p.store.Ring)
	if err != nil {
		return nil, err
	}
	err = p.write(ctx, 0, func(tx *db.Tx) error { return p.claim.store(tx, res.status, sealed) })
	switch {
	case err == nil:
		return res, nil
	case errors.Is(err, errStored):
		return p.earlierOr(res), nil
	case p.claimed:
		web.Log(ctx).Error("the response for an Idempotency-Key was not stored", "error", err)
		return res, nil
	}
	return nil, err
}

// Once calls fn, which has all the request's effects. If the request has an Idempotency-Key, fn runs
// in a transaction, which it joins by its context and in which we store its value as the response.
// So fn must be quick, must not do work outside the database, and may be called more than once.
func Once[T any](ctx context.Context, fn func(context.Context) (T, error)) (value T, err error) {
	p := of(ctx)
	if p == nil {
		return fn(ctx)
	}
	err = p.write(ctx, 0, func(tx *db.Tx) error {
		if value, err = fn(tx.Context()); err != nil {
			return err
		}
		return Keep(tx, value)
	})
	return value, err
}

// Keep stores a handler's value as the response, in the transaction that has its effects. Without an
// Idempotency-Key, it does nothing.
func Keep(tx *db.Tx, value any) error {
	p := of(tx.Context())
	if p == nil {
		return nil
	}
	res := &response{header: http.Header{}}
	web.Write(res, p.r, p.status, value)
	if res.status >= 300 {
		return errors.New("the response cannot be encoded")
	}
	sealed, err := res.seal(p.store.Ring)
	if err != nil {
		return err
	}
	if err := p.claim.store(tx, res.status, sealed); err != nil {
		return err
	}
	tx.OnCommit(func() { p.kept = res })
	return nil
}

// write runs fn in a transaction that claims the key, unless the claim was committed earlier. It
// also takes over a claim that was last renewed at dead. It returns errStored, errBusy or
// errOtherBody if another request has the key, and Unavailable if it has to wait for too long.
func (p *pending) write(ctx context.Context, dead stamp.Time, fn func(*db.Tx) error) error {
	limited, cancel := context.WithTimeout(ctx, p.store.maxWait())
	defer cancel()
	err := errFree
	for errors.Is(err, errFree) {
		err = p.try(limited, dead, fn)
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return errs.Unavailablef(err, "the database is busy, or a request with this Idempotency-Key is still being processed")
	}
	return err
}

// try is write's single attempt. It returns errFree if another request had the key, and has failed.
func (p *pending) try(ctx context.Context, dead stamp.Time, fn func(*db.Tx) error) error {
	claimed := p.claimed
	err := p.store.DB.Write(ctx, func(tx *db.Tx) (err error) {
		if !p.claimed {
			claimed, err = p.claim.insert(tx, dead)
		}
		if err != nil || !claimed {
			return err // if nil, Write returns once the row in the way is committed
		}
		return fn(tx)
	})
	if err != nil || claimed {
		return err
	}
	return p.refusal(ctx)
}

// refusal returns the error for a key that another request has.
func (p *pending) refusal(ctx context.Context) error {
	found, err := p.claim.get(p.store.DB.Read(ctx))
	switch {
	case err != nil:
		return err
	case found == nil:
		return errFree
	case found.status == 0:
		return errBusy
	case !bytes.Equal(found.bodyHash, p.claim.bodyHash):
		return errOtherBody
	}
	return errStored
}

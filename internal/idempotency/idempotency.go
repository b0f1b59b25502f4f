// Package idempotency replays the stored response of a POST that is repeated with the same
// Idempotency-Key.
//
// The whole request runs in one transaction that the handler's own writes join: first the row that
// claims the key, then the handler, then the response, stored in that row. The response is
// therefore stored if and only if its effects are, and a concurrent repeat waits for the first
// request: on SQLite for the writer, on PostgreSQL for the row. A request that fails is rolled back
// and leaves no row, so it can be repeated with the same key.
//
// A route that does work outside of the database cannot run in a transaction: it would hold it for as
// long as that takes (detached.go).
package idempotency

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/seal"
	"steward/internal/stamp"
	"steward/internal/web"
)

// TTL is how long a response is stored.
const TTL = 24 * time.Hour

// sealPurpose binds sealed responses to this package.
const sealPurpose = "idempotency.response"

// errRollback rolls back the transaction of a request that failed.
var errRollback = errors.New("request failed")

// Store keeps responses, sealed since they may contain secrets.
type Store struct {
	DB   *db.DB
	Ring *seal.Ring
	Now  func() time.Time
}

// Serve writes the stored response for key, or the response of next, which it stores. It implements
// web.Idempotent.
func (s *Store) Serve(w http.ResponseWriter, r *http.Request, key string, body []byte, detached bool, next http.Handler) {
	if err := checkKey(key); err != nil {
		web.Fail(w, r, err)
		return
	}
	if detached {
		s.serveDetached(w, r, newClaim(r, key, body, stamp.Of(s.Now())), next)
		return
	}
	var res *response
	err := s.DB.Write(r.Context(), func(tx *db.Tx) error {
		var err error
		res, err = s.run(tx, r, key, body, next)
		return err
	})
	if err != nil && !errors.Is(err, errRollback) {
		web.Fail(w, r, err)
		return
	}
	res.writeTo(w)
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

// run returns the stored response, or claims the key and executes the request. DB.Write may call it
// more than once.
func (s *Store) run(tx *db.Tx, r *http.Request, key string, body []byte, next http.Handler) (*response, error) {
	c := newClaim(r, key, body, stamp.Of(s.Now()))
	claimed, err := c.insert(tx)
	if err != nil {
		return nil, err
	}
	if !claimed {
		return s.replay(tx, c)
	}
	r = r.WithContext(tx.Context())
	if len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body)) // anew for each call
	}
	return s.execute(tx, c, r, next)
}

// execute runs the handler and stores its response. It returns errRollback along with the response
// of a request that failed.
func (s *Store) execute(tx *db.Tx, c claim, r *http.Request, next http.Handler) (*response, error) {
	res := &response{header: http.Header{}, status: http.StatusOK}
	next.ServeHTTP(res, r)
	if res.status >= 300 {
		return res, errRollback
	}
	return res, s.store(tx, c, res)
}

// store stores the response of a claim.
func (s *Store) store(tx *db.Tx, c claim, res *response) error {
	plain, err := json.Marshal(content{Header: res.header, Body: res.body.Bytes()})
	if err != nil {
		return fmt.Errorf("encode response: %w", err)
	}
	return c.update(tx, res.status, s.Ring.Seal(sealPurpose, plain))
}

// newClaim scopes a key to its caller, method and path. The path includes the prefix of the face,
// since the response depends on it.
func newClaim(r *http.Request, key string, body []byte, now stamp.Time) claim {
	caller := auth.From(r.Context())
	who := caller.KeyID + caller.ClientID + "/" + caller.UserID
	path := web.FaceOf(r.Context()).Prefix + r.URL.RequestURI()
	hash := sha256.Sum256(body)
	return claim{
		orgID:     caller.OrgID,
		scope:     seal.Hash(fmt.Sprintf("%s\n%s\n%s\n%s", who, r.Method, path, key)),
		bodyHash:  hash[:],
		createdAt: now,
	}
}

// replay returns the stored response, or nil if a detached request has not stored it yet. It returns
// Invalid if the first request had another body.
func (s *Store) replay(tx *db.Tx, c claim) (*response, error) {
	bodyHash, status, sealed, err := c.get(tx)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(bodyHash, c.bodyHash) {
		return nil, errs.InvalidField("header.Idempotency-Key", "this key was already used with a different body")
	}
	if status == 0 {
		return nil, nil
	}
	plain, err := s.Ring.Open(sealPurpose, sealed)
	if err != nil {
		return nil, fmt.Errorf("open stored response: %w", err)
	}
	var stored content
	if err := json.Unmarshal(plain, &stored); err != nil {
		return nil, fmt.Errorf("decode stored response: %w", err)
	}
	res := &response{header: stored.Header, status: status}
	res.body.Write(stored.Body)
	return res, nil
}

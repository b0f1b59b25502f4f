package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Idempotency answers a repeated POST with its first answer.
//
// The whole request runs inside one transaction, which the handler's own writes join: first the row that claims the key, then the
// handler, then the answer into that row. So the answer is stored exactly when its effects are, whatever crashes; and a concurrent
// repeat waits by itself, on SQLite for the one writer, on PostgreSQL for the row. A refused request leaves no row: nothing happened,
// so it may be tried again with the same key.
type Idempotency struct {
	DB   *db.DB
	Ring *seal.Ring
	Now  func() time.Time
}

// Keep is how long a first answer is remembered.
const Keep = 24 * time.Hour

const idempotencyPurpose = "idempotency.answer"

// errRefused rolls back the transaction of a request that was not successful.
var errRefused = errors.New("not successful")

// stored is an answer at rest, sealed since it may hold a secret.
type stored struct {
	Header http.Header
	Body   []byte
}

func (i *Idempotency) serve(w http.ResponseWriter, r *http.Request, key string, body []byte, next http.Handler) {
	if err := checkKey(key); err != nil {
		Fail(w, r, err)
		return
	}
	var out *memory
	err := i.DB.Write(r.Context(), func(tx *db.Tx) (err error) {
		out, err = i.once(tx, r, key, body, next)
		return err
	})
	if err != nil && !errors.Is(err, errRefused) {
		Fail(w, r, err)
		return
	}
	out.copyTo(w)
}

func checkKey(key string) error {
	ok := len(key) <= 255
	for _, c := range []byte(key) {
		ok = ok && c >= 0x20 && c < 0x7f
	}
	if !ok {
		return errs.Wrong("header.Idempotency-Key", "expected 1 to 255 printable characters")
	}
	return nil
}

// once gives the stored answer, or claims the key, runs the handler and stores what it answers.
func (i *Idempotency) once(tx *db.Tx, r *http.Request, key string, body []byte, next http.Handler) (*memory, error) {
	caller := auth.From(r.Context())
	now := stamp.Of(i.Now())
	who := caller.KeyID + caller.ClientID + "/" + caller.UserID
	scope := seal.Hash(fmt.Sprintf("%s\n%s\n%s\n%s", who, r.Method, r.URL.RequestURI(), key))
	bodyHash := sha256.Sum256(body)
	if _, err := tx.Exec(`DELETE FROM idempotency WHERE org_id = $1 AND scope = $2 AND created_at < $3`,
		caller.OrgID, scope, now.Add(-Keep)); err != nil {
		return nil, err
	}
	claimed, err := tx.Exec(`INSERT INTO idempotency (org_id, scope, body_hash, status, answer, created_at)
		VALUES ($1, $2, $3, 0, $4, $5) ON CONFLICT (org_id, scope) DO NOTHING`, caller.OrgID, scope, bodyHash[:], []byte{}, now)
	if err != nil {
		return nil, err
	}
	if claimed == 0 {
		return i.replay(tx, caller.OrgID, scope, bodyHash[:])
	}
	out := &memory{header: http.Header{}, status: http.StatusOK}
	next.ServeHTTP(out, r.WithContext(tx.Context()))
	if out.status >= 300 {
		return out, errRefused
	}
	text, err := json.Marshal(stored{Header: out.header, Body: out.body.Bytes()})
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(`UPDATE idempotency SET status = $3, answer = $4 WHERE org_id = $1 AND scope = $2`,
		caller.OrgID, scope, out.status, i.Ring.Seal(idempotencyPurpose, text))
	return out, err
}

func (i *Idempotency) replay(tx *db.Tx, orgID string, scope, bodyHash []byte) (*memory, error) {
	var first, sealed []byte
	out := &memory{}
	err := tx.Row(`SELECT body_hash, status, answer FROM idempotency WHERE org_id = $1 AND scope = $2`, orgID, scope).
		Scan(&first, &out.status, &sealed)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(first, bodyHash) {
		return nil, errs.Wrong("header.Idempotency-Key", "this key was used with another body")
	}
	text, err := i.Ring.Open(idempotencyPurpose, sealed)
	if err != nil {
		return nil, err
	}
	var s stored
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	out.header = s.Header
	out.body.Write(s.Body)
	return out, nil
}

// Purge forgets answers that are older than Keep, at most `batch` of them, and tells how many.
func (i *Idempotency) Purge(ctx context.Context, batch int) (n int64, err error) {
	err = i.DB.Write(ctx, func(tx *db.Tx) error {
		n, err = tx.Exec(`DELETE FROM idempotency WHERE (org_id, scope) IN
			(SELECT org_id, scope FROM idempotency WHERE created_at < $1 LIMIT $2)`, stamp.Of(i.Now()).Add(-Keep), batch)
		return err
	})
	return n, err
}

// memory holds an answer until its transaction is committed.
type memory struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (m *memory) Header() http.Header         { return m.header }
func (m *memory) WriteHeader(status int)      { m.status = status }
func (m *memory) Write(p []byte) (int, error) { return m.body.Write(p) }

func (m *memory) copyTo(w http.ResponseWriter) {
	for name, values := range m.header {
		w.Header()[name] = values
	}
	w.WriteHeader(m.status)
	w.Write(m.body.Bytes())
}

package web

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
	ok := key != "" && len(key) <= 255
	for _, c := range []byte(key) {
		ok = ok && c >= 0x20 && c < 0x7f
	}
	if !ok {
		return errs.Wrong("header.Idempotency-Key", "expected 1 to 255 printable characters")
	}
	return nil
}

// once gives the stored answer, or claims the key, runs the handler and stores what it answers. It may run twice (DB.Write), so the handler
// gets the body anew each time.
func (i *Idempotency) once(tx *db.Tx, r *http.Request, key string, body []byte, next http.Handler) (*memory, error) {
	c := i.claimOf(r, key, body)
	claimed, err := c.take(tx)
	if err != nil {
		return nil, err
	}
	if !claimed {
		return i.replay(tx, c)
	}
	out := &memory{header: http.Header{}, status: http.StatusOK}
	r = r.WithContext(tx.Context())
	if len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	next.ServeHTTP(out, r)
	if out.status >= 300 {
		return out, errRefused
	}
	text, err := json.Marshal(stored{Header: out.header, Body: out.body.Bytes()})
	if err != nil {
		return nil, err
	}
	return out, c.keep(tx, out.status, i.Ring.Seal(idempotencyPurpose, text))
}

// claimOf scopes a key to its caller, method and path, of which the face's prefix is a part: its answers have another form.
func (i *Idempotency) claimOf(r *http.Request, key string, body []byte) claim {
	caller := auth.From(r.Context())
	who := caller.KeyID + caller.ClientID + "/" + caller.UserID
	path := faceOf(r.Context()).Prefix + r.URL.RequestURI()
	hash := sha256.Sum256(body)
	return claim{
		orgID: caller.OrgID, scope: seal.Hash(fmt.Sprintf("%s\n%s\n%s\n%s", who, r.Method, path, key)), bodyHash: hash[:], at: stamp.Of(i.Now()),
	}
}

func (i *Idempotency) replay(tx *db.Tx, c claim) (*memory, error) {
	bodyHash, status, sealed, err := c.answer(tx)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(bodyHash, c.bodyHash) {
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
	out := &memory{header: s.Header, status: status}
	out.body.Write(s.Body)
	return out, nil
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

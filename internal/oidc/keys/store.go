package keys

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"steward/internal/audit"
	"steward/internal/db"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Store stores the keys and caches the set.
type Store struct {
	DB   *db.DB
	Ring *seal.Ring
	Now  func() time.Time
	Log  *slog.Logger
	// Audit records the caller's action in the same transaction.
	Audit *audit.Store
	// NewRSA replaces rsa.GenerateKey in tests, which would spend most of their time there.
	NewRSA func() (*rsa.PrivateKey, error)

	// loading lets only one goroutine at a time load the set.
	loading sync.Mutex
	mu      sync.RWMutex
	set     *Set
	// generation increments whenever the cache is emptied. Never store a set read in an earlier
	// generation.
	generation uint64
}

func (s *Store) now() stamp.Time { return stamp.Of(s.Now()) }

// Forget empties the cache. Call it when Cache is invalidated.
func (s *Store) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = nil
	s.generation++
}

func (s *Store) cached() (set *Set, generation uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.set, s.generation
}

// Set returns the current keys, from the cache if possible. On a new installation it generates the
// first keys.
func (s *Store) Set(ctx context.Context) (*Set, error) {
	if set, _ := s.cached(); set != nil {
		return set, nil
	}
	s.loading.Lock()
	defer s.loading.Unlock()
	set, generation := s.cached()
	if set != nil {
		return set, nil
	}
	set, err := s.load(ctx)
	if err != nil {
		return nil, err
	}
	if set == nil {
		if err := s.createFirst(ctx); err != nil {
			return nil, err
		}
		_, generation = s.cached()
		set, err = s.load(ctx)
		if err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.generation == generation {
		s.set = set
	}
	return set, nil
}

// load reads the set. It returns nil if there are no keys yet.
func (s *Store) load(ctx context.Context) (*Set, error) {
	keys, err := s.readAll(s.DB.Read(ctx))
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	set := &Set{signing: map[jose.SignatureAlgorithm]key{}}
	for _, k := range keys {
		if k.state == Active {
			set.signing[k.alg] = k
		}
		set.public.Keys = append(set.public.Keys, k.public)
	}
	set.published, err = json.Marshal(set.public)
	if err != nil {
		return nil, fmt.Errorf("encode public keys: %w", err)
	}
	for _, alg := range algorithms {
		if set.signing[alg].signer == nil {
			return nil, errors.New("no active key for " + string(alg))
		}
	}
	return set, nil
}

// selectKeys orders each algorithm's keys by state, and its next keys by the time they may sign.
const selectKeys = `SELECT kid, alg, state, public, private, settled_at, created_at, active_at, retired_at
	FROM oidc_keys ORDER BY alg DESC, CASE state WHEN 'active' THEN 0 WHEN 'next' THEN 1 ELSE 2 END, settled_at, kid`

// readPublic reads all keys without their private keys.
func readPublic(q db.Querier) ([]key, error) {
	return db.Collect(q, func(row db.Row) (key, error) {
		k, _, err := scan(row)
		return k, err
	}, selectKeys)
}

// readAll reads all keys with their private keys.
func (s *Store) readAll(q db.Querier) ([]key, error) {
	return db.Collect(q, func(row db.Row) (key, error) {
		k, sealed, err := scan(row)
		if err != nil || sealed == nil {
			return k, err
		}
		der, err := s.Ring.Open(purpose(k.kid), sealed)
		if err != nil {
			return key{}, fmt.Errorf("open signing key %s: %w", k.kid, err)
		}
		k.signer, err = parseSigner(der)
		if err != nil {
			return key{}, fmt.Errorf("parse signing key %s: %w", k.kid, err)
		}
		return k, nil
	}, selectKeys)
}

// scan reads a row from selectKeys. It returns the sealed private key next to the key.
func scan(row db.Row) (k key, sealed []byte, err error) {
	err = row.Scan(&k.kid, &k.alg, &k.state, db.FromJSON(&k.public), &sealed, &k.settledAt, &k.createdAt, &k.activeAt, &k.retiredAt)
	if err != nil {
		return key{}, nil, fmt.Errorf("read signing key: %w", err)
	}
	return k, sealed, nil
}

// EnsureFirst generates the first keys if there are none, which is slow. Unlike Set it leaves the cache
// alone, because it may run inside a transaction that is rolled back.
func (s *Store) EnsureFirst(ctx context.Context) error {
	if set, _ := s.cached(); set != nil {
		return nil
	}
	var n int
	if err := s.DB.Read(ctx).Row(`SELECT count(*) FROM oidc_keys`).Scan(&n); err != nil {
		return fmt.Errorf("count signing keys: %w", err)
	}
	if n > 0 {
		return nil
	}
	return s.createFirst(ctx)
}

// createFirst generates the first keys. If several replicas start at once, one of them stores its keys.
func (s *Store) createFirst(ctx context.Context) error {
	var generated []key
	for _, alg := range algorithms {
		for i := range 1 + nextKeys {
			k, err := s.generate(alg)
			if err != nil {
				return err
			}
			if i == 0 {
				k.state = Active
			}
			generated = append(generated, k)
		}
	}
	return s.DB.Write(ctx, func(tx *db.Tx) error { return s.addFirst(tx, generated) })
}

// addFirst stores the first keys unless there are some already.
func (s *Store) addFirst(tx *db.Tx, generated []key) error {
	if err := tx.Lock("oidc_keys"); err != nil {
		return err
	}
	keys, err := readPublic(tx)
	if err != nil {
		return err
	}
	if len(keys) > 0 {
		return nil
	}
	now := s.now()
	for _, k := range generated {
		k.createdAt = now
		k.settledAt = now // no set was ever published without it
		if k.state == Active {
			k.activeAt = &now
		}
		if err := s.insert(tx, k); err != nil {
			return err
		}
	}
	return tx.Invalidate(Cache)
}

func (s *Store) insert(tx *db.Tx, k key) error {
	public, err := json.Marshal(k.public)
	if err != nil {
		return fmt.Errorf("encode public key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k.signer)
	if err != nil {
		return fmt.Errorf("encode private key: %w", err)
	}
	_, err = tx.Exec(`INSERT INTO oidc_keys (kid, alg, state, public, private, settled_at, created_at, active_at)
		VALUES (@kid, @alg, @state, @public, @private, @settled_at, @created_at, @active_at)`,
		db.Args{
			"kid": k.kid, "alg": k.alg, "state": k.state, "public": string(public),
			"private": s.Ring.Seal(purpose(k.kid), der), "settled_at": k.settledAt, "created_at": k.createdAt,
			"active_at": k.activeAt,
		})
	if err != nil {
		return fmt.Errorf("insert signing key: %w", err)
	}
	return nil
}

// Info describes a key to administrators.
type Info struct {
	_ struct{} `goName:"SigningKey"`

	ID        string      `json:"id" doc:"Key id (kid) in tokens and in the JWKS" example:"HcTgNQF3aLz8aXQv1sN5b0cV3cM3WmJq5o2e7n0p1rt"`
	Algorithm string      `json:"algorithm" example:"RS256"`
	State     State       `json:"state" enum:"next,active,retiring" doc:"next is published and does not sign yet, active signs, retiring only verifies"`
	CreatedAt stamp.Time  `json:"created_at" format:"date-time"`
	ActiveAt  *stamp.Time `json:"active_at,omitempty" format:"date-time" doc:"When the key began to sign; absent if it is next"`
	GoneAt    *stamp.Time `json:"gone_at,omitempty" format:"date-time" doc:"When a retiring key leaves the JWKS: all tokens that it signed have expired then"`
}

// List returns all keys, for each algorithm the active key, the next ones, then the retiring ones.
func (s *Store) List(ctx context.Context) ([]Info, error) {
	if err := s.EnsureFirst(ctx); err != nil {
		return nil, err
	}
	stored, err := readPublic(s.DB.Read(ctx))
	if err != nil {
		return nil, fmt.Errorf("list signing keys: %w", err)
	}
	list := make([]Info, len(stored))
	for i, k := range stored {
		shown := Info{ID: k.kid, Algorithm: string(k.alg), State: k.state, CreatedAt: k.createdAt, ActiveAt: k.activeAt}
		if k.retiredAt != nil {
			gone := k.retiredAt.Add(RetainTime)
			shown.GoneAt = &gone
		}
		list[i] = shown
	}
	return list, nil
}

package keys

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"steward/internal/db"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Store is all SQL of this package, and the cache of the set.
type Store struct {
	DB   *db.DB
	Ring *seal.Ring
	Now  func() time.Time
	// Audit writes who did it, in the same transaction.
	Audit func(tx *db.Tx, action, target string) error

	// loading lets one goroutine at a time read and open the keys.
	loading sync.Mutex
	mu      sync.RWMutex
	set     *Set
	// round counts how often the cache was emptied: what was read before must not enter it after.
	round uint64
}

func (s *Store) now() stamp.Time { return stamp.Of(s.Now()) }

// Forget empties the cache. It is to be called when Cache was bumped.
func (s *Store) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = nil
	s.round++
}

func (s *Store) cached() (*Set, uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.set, s.round
}

// Set gives the keys of this moment, from memory where it can. In a new installation it makes them.
func (s *Store) Set(ctx context.Context) (*Set, error) {
	if set, _ := s.cached(); set != nil {
		return set, nil
	}
	s.loading.Lock()
	defer s.loading.Unlock()
	set, round := s.cached()
	if set != nil {
		return set, nil
	}
	set, err := s.load(ctx)
	if err == nil && set == nil {
		if err = s.first(ctx); err == nil {
			_, round = s.cached()
			set, err = s.load(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.round == round {
		s.set = set
	}
	return set, nil
}

// load reads and opens the keys; nil when there are none yet.
func (s *Store) load(ctx context.Context) (*Set, error) {
	rows, err := all(s.DB.Read(ctx), s.Ring)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	set := &Set{signing: map[jose.SignatureAlgorithm]key{}}
	for _, k := range rows {
		if k.state == Active {
			set.signing[k.alg] = k
		}
		set.public.Keys = append(set.public.Keys, k.public)
	}
	for _, alg := range Algorithms {
		if set.signing[alg].signer == nil {
			return nil, errors.New("keys: no active key for " + string(alg))
		}
	}
	return set, nil
}

// all gives every key, of each algorithm the active one first, then the next ones, those that settle first before the others, then the
// retiring ones. Private halves are opened with the ring, and left out when there is none.
func all(q db.Querier, ring *seal.Ring) ([]key, error) {
	return db.Collect(q, func(row db.Row) (k key, err error) {
		var public string
		var private []byte
		err = row.Scan(&k.kid, &k.alg, &k.state, &public, &private, &k.settledAt, &k.createdAt, &k.activeAt, &k.retiredAt)
		if err == nil {
			err = json.Unmarshal([]byte(public), &k.public)
		}
		if err == nil && private != nil && ring != nil {
			if private, err = ring.Open(purpose(k.kid), private); err == nil {
				k.signer, err = parseSigner(private)
			}
		}
		return k, err
	}, `SELECT kid, alg, state, public, private, settled_at, created_at, active_at, retired_at FROM oidc_keys
		ORDER BY alg DESC, CASE state WHEN 'active' THEN 0 WHEN 'next' THEN 1 ELSE 2 END, settled_at, kid`)
}

// exclusive has replicas that change the keys do so one after the other: what is read after it is what the one before left.
func exclusive(tx *db.Tx) error {
	_, err := tx.Exec(`INSERT INTO meta (key, value) VALUES ('oidc_keys', '1') ON CONFLICT (key) DO UPDATE SET value = meta.value`)
	return err
}

// first makes the keys of a new installation. Of several replicas that start at once, one does it.
func (s *Store) first(ctx context.Context) error {
	var made []key
	for _, alg := range Algorithms {
		for range 1 + spares {
			k, err := generate(alg)
			if err != nil {
				return err
			}
			made = append(made, k)
		}
	}
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := exclusive(tx); err != nil {
			return err
		}
		there, err := all(tx, nil)
		if err != nil || len(there) > 0 {
			return err
		}
		now := s.now()
		for i, k := range made {
			if i%(1+spares) == 0 {
				k.state, k.activeAt = Active, &now
			}
			k.settledAt = now // no set was ever published without it
			if err := s.insert(tx, k, now); err != nil {
				return err
			}
		}
		return tx.Bump(Cache)
	})
}

func (s *Store) insert(tx *db.Tx, k key, now stamp.Time) error {
	public, err1 := json.Marshal(k.public)
	private, err2 := x509.MarshalPKCS8PrivateKey(k.signer)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	_, err := tx.Exec(`INSERT INTO oidc_keys (kid, alg, state, public, private, settled_at, created_at, active_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, k.kid, k.alg, k.state, string(public), s.Ring.Seal(purpose(k.kid), private), k.settledAt, now,
		k.activeAt)
	return err
}

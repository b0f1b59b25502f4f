package keys

import (
	"context"
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4"

	"steward/internal/db"
	"steward/internal/stamp"
	"steward/internal/web"
)

// refillTime bounds how long a rotation may take to make the next keys.
const refillTime = 10 * time.Second

// Rotate has the next key of each algorithm sign from now on. It tells whether it did: not while a next key is so new that relying parties
// may not know it, in which case the active one is new as well.
func (s *Store) Rotate(ctx context.Context) (rotated bool, err error) {
	if err := s.ensure(ctx); err != nil {
		return false, err
	}
	return s.rotate(ctx, func([]key, stamp.Time) bool { return true })
}

// Tend does what time asks for: it rotates keys that have signed for MaxAge, makes next keys that are missing, and removes public halves
// that nothing rests on any more. It is repeated, by one replica at a time. Where there are no keys yet, it leaves their making to those
// who need them.
func (s *Store) Tend(ctx context.Context) error {
	_, err := s.rotate(ctx, old)
	return errors.Join(err, s.fill(ctx), s.remove(ctx))
}

// old tells whether an active key has signed for long enough.
func old(keys []key, now stamp.Time) bool {
	for _, k := range keys {
		if k.state == Active && k.activeAt.Add(MaxAge) <= now {
			return true
		}
	}
	return false
}

// rotate rotates if it is due. All algorithms move together, or none. New next keys are made after the commit, since that takes a while.
func (s *Store) rotate(ctx context.Context, due func([]key, stamp.Time) bool) (rotated bool, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := exclusive(tx); err != nil {
			return err
		}
		now := s.now()
		there, err := all(tx, nil)
		if err != nil {
			return err
		}
		if rotated = due(there, now) && settled(there, now); !rotated {
			return nil
		}
		for _, alg := range Algorithms {
			if err := advance(tx, there, alg, now); err != nil {
				return err
			}
		}
		tx.OnCommit(s.refill)
		return errors.Join(tx.Bump(Cache), s.Audit(tx, "keys.rotate", "signing keys"))
	})
	return rotated && err == nil, err
}

// ensure makes the first keys if there are none.
func (s *Store) ensure(ctx context.Context) error {
	if set, _ := s.cached(); set != nil {
		return nil
	}
	var n int
	if err := s.DB.Read(ctx).Row(`SELECT count(*) FROM oidc_keys`).Scan(&n); err != nil || n > 0 {
		return err
	}
	return s.first(ctx)
}

// settled tells whether every algorithm has a next key that relying parties know.
func settled(keys []key, now stamp.Time) bool {
	for _, alg := range Algorithms {
		k, ok := upcoming(keys, alg)
		if !ok || k.settledAt > now {
			return false
		}
	}
	return true
}

// upcoming gives the next key of an algorithm that settles first.
func upcoming(keys []key, alg jose.SignatureAlgorithm) (key, bool) {
	for _, k := range keys {
		if k.alg == alg && k.state == Next {
			return k, true
		}
	}
	return key{}, false
}

// advance moves the keys of one algorithm a state on. The private half of the one that retires is destroyed.
func advance(tx *db.Tx, there []key, alg jose.SignatureAlgorithm, now stamp.Time) error {
	next, _ := upcoming(there, alg)
	_, err1 := tx.Exec(`UPDATE oidc_keys SET state = 'retiring', private = NULL, retired_at = $2
		WHERE alg = $1 AND state = 'active'`, alg, now)
	_, err2 := tx.Exec(`UPDATE oidc_keys SET state = 'active', active_at = $2 WHERE kid = $1`, next.kid, now)
	return errors.Join(err1, err2)
}

// refill makes the next keys that a rotation used up. It runs in a context of its own, outside of the transaction that rotated; if it
// fails, Tend does it.
func (s *Store) refill() {
	ctx, cancel := context.WithTimeout(context.Background(), refillTime)
	defer cancel()
	if err := s.fill(ctx); err != nil {
		web.Log(ctx).Warn("next signing keys could not be made yet", "error", err)
	}
}

// fill makes next keys until there are enough. They may sign when they have settled.
func (s *Store) fill(ctx context.Context) error {
	there, err := all(s.DB.Read(ctx), nil)
	if err != nil || len(there) == 0 {
		return err
	}
	var made []key
	for _, alg := range Algorithms {
		for range lacking(there, alg) {
			k, err := generate(alg)
			if err != nil {
				return err
			}
			made = append(made, k)
		}
	}
	if len(made) == 0 {
		return nil
	}
	return s.DB.Write(ctx, func(tx *db.Tx) error { return s.add(tx, made) })
}

// lacking tells how many next keys of an algorithm are missing.
func lacking(keys []key, alg jose.SignatureAlgorithm) int {
	n := spares
	for _, k := range keys {
		if k.alg == alg && k.state == Next {
			n--
		}
	}
	return max(0, n)
}

// add writes next keys, unless another replica was faster.
func (s *Store) add(tx *db.Tx, made []key) error {
	if err := exclusive(tx); err != nil {
		return err
	}
	there, err := all(tx, nil)
	if err != nil {
		return err
	}
	now := s.now()
	for _, k := range made {
		if lacking(there, k.alg) == 0 {
			continue
		}
		k.settledAt = now.Add(Settle)
		if err := s.insert(tx, k, now); err != nil {
			return err
		}
		there = append(there, k)
	}
	return tx.Bump(Cache)
}

// remove takes away keys whose last token has expired.
func (s *Store) remove(ctx context.Context) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		n, err := tx.Exec(`DELETE FROM oidc_keys WHERE state = 'retiring' AND retired_at < $1`, s.now().Add(-Kept))
		if err != nil || n == 0 {
			return err
		}
		return tx.Bump(Cache)
	})
}

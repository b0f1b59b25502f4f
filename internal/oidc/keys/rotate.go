package keys

import (
	"context"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"

	"steward/internal/db"
	"steward/internal/stamp"
)

// replenishTimeout bounds the time a rotation takes to store new next keys.
const replenishTimeout = time.Minute

// Rotate makes each algorithm's next key active. It returns false if a next key was published so
// recently that relying parties may not know it; the active key is just as new then.
func (s *Store) Rotate(ctx context.Context) (rotated bool, err error) {
	if err := s.EnsureFirst(ctx); err != nil {
		return false, err
	}
	return s.rotate(ctx, func([]key, stamp.Time) bool { return true })
}

// Maintain rotates keys that have signed for MaxAge, generates missing next keys, and deletes keys that
// no valid token needs. Call it regularly, from one replica at a time. It leaves generating the first
// keys to their first use.
func (s *Store) Maintain(ctx context.Context) error {
	if _, err := s.rotate(ctx, expired); err != nil {
		return err
	}
	if err := s.replenish(ctx); err != nil {
		return err
	}
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		n, err := tx.Exec(`DELETE FROM oidc_keys WHERE state = 'retiring' AND retired_at < $1`, s.now().Add(-RetainTime))
		if err != nil {
			return fmt.Errorf("delete signing keys: %w", err)
		}
		if n == 0 {
			return nil
		}
		return tx.Invalidate(Cache)
	})
}

// expired reports whether an active key has signed for MaxAge.
func expired(keys []key, now stamp.Time) bool {
	for _, k := range keys {
		if k.state == Active && k.activeAt.Add(MaxAge) <= now {
			return true
		}
	}
	return false
}

// rotate rotates all algorithms' keys if that is due and the next keys may sign. It generates new next
// keys after the commit.
func (s *Store) rotate(ctx context.Context, due func([]key, stamp.Time) bool) (rotated bool, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		rotated = false
		if err := tx.Lock("oidc_keys"); err != nil {
			return err
		}
		keys, err := readPublic(tx)
		if err != nil {
			return err
		}
		now := s.now()
		if !due(keys, now) || !settled(keys, now) {
			return nil
		}
		for _, alg := range algorithms {
			next, _ := nextKey(keys, alg)
			// The algorithm's active key becomes retiring and loses its private key.
			_, err := tx.Exec(`UPDATE oidc_keys SET state = 'retiring', private = NULL, retired_at = $2
				WHERE alg = $1 AND state = 'active'`, next.alg, now)
			if err != nil {
				return fmt.Errorf("retire signing key: %w", err)
			}
			_, err = tx.Exec(`UPDATE oidc_keys SET state = 'active', active_at = $2 WHERE kid = $1`, next.kid, now)
			if err != nil {
				return fmt.Errorf("activate signing key: %w", err)
			}
		}
		if err := tx.Invalidate(Cache); err != nil {
			return err
		}
		if err := s.Audit.Record(tx, "keys.rotate", "signing keys"); err != nil {
			return err
		}
		tx.OnCommit(s.replenishAfterCommit)
		rotated = true
		return nil
	})
	if err != nil {
		return false, err
	}
	return rotated, nil
}

// settled reports whether each algorithm has a next key that may sign.
func settled(keys []key, now stamp.Time) bool {
	for _, alg := range algorithms {
		k, ok := nextKey(keys, alg)
		if !ok || k.settledAt > now {
			return false
		}
	}
	return true
}

// nextKey returns an algorithm's next key, or the one that may sign first if there are two.
func nextKey(keys []key, alg jose.SignatureAlgorithm) (key, bool) {
	for _, k := range keys {
		if k.alg == alg && k.state == Next {
			return k, true
		}
	}
	return key{}, false
}

// replenishAfterCommit replaces the next keys that a rotation has used up. It needs its own context,
// since the transaction's has ended. If it fails, Maintain does the work later.
func (s *Store) replenishAfterCommit() {
	ctx, cancel := context.WithTimeout(context.Background(), replenishTimeout)
	defer cancel()
	if err := s.replenish(ctx); err != nil {
		s.Log.Warn("next signing keys could not be generated", "error", err)
	}
}

// replenish generates missing next keys. They may sign after PublishTime.
func (s *Store) replenish(ctx context.Context) error {
	keys, err := readPublic(s.DB.Read(ctx))
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return nil
	}
	var generated []key
	for _, alg := range algorithms {
		for range missing(keys, alg) {
			k, err := s.generate(alg)
			if err != nil {
				return err
			}
			generated = append(generated, k)
		}
	}
	if len(generated) == 0 {
		return nil
	}
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := tx.Lock("oidc_keys"); err != nil {
			return err
		}
		keys, err := readPublic(tx)
		if err != nil {
			return err
		}
		now := s.now()
		for _, k := range generated {
			if missing(keys, k.alg) == 0 {
				continue
			}
			k.createdAt = now
			k.settledAt = now.Add(PublishTime)
			if err := s.insert(tx, k); err != nil {
				return err
			}
			keys = append(keys, k)
		}
		return tx.Invalidate(Cache)
	})
}

// missing returns the number of next keys that an algorithm lacks.
func missing(keys []key, alg jose.SignatureAlgorithm) int {
	n := nextKeys
	for _, k := range keys {
		if k.alg == alg && k.state == Next {
			n--
		}
	}
	return max(0, n)
}

package db

import (
	"errors"
	"slices"
	"sync"
)

// maxRecalled bounds a Recall; beyond that everything is read again.
const maxRecalled = 100_000

// Recall keeps what transactions have read, so that the next ones need not: on a hot path that is one round trip less. Unlike a Cache it is
// never behind. Each transaction that uses it carries a statement which fails if something was changed meanwhile, here or on another
// replica; then Write runs once more, and reads. On SQLite reading is no round trip, and is done each time. The zero value is ready to use.
type Recall[K comparable, V any] struct {
	mu    sync.Mutex
	epoch int64
	held  map[K]V
}

// Get gives the values of keys, as load reads them: keys without a value are left out, and asked for again the next time. Whatever changes a
// value must call Bump with the name, which is the same for each call. Errors are those of load and of tx.
func (r *Recall[K, V]) Get(tx *Tx, name string, keys []K, load func(keys []K) (map[K]V, error)) (map[K]V, error) {
	if tx.Dialect() == SQLite {
		return load(keys)
	}
	if !tx.again && !tx.bumped(name) {
		if found, epoch, ok := r.recall(keys); ok {
			return found, tx.Send(`SELECT expect_epoch($1, $2)`, name, epoch)
		}
	}
	// The epoch first: values that are newer than it are read once too often, older ones would not be noticed.
	var epoch int64
	if err := tx.Row(`SELECT n FROM epochs WHERE name = $1`, name).Scan(&epoch); err != nil && !errors.Is(err, ErrNoRows) {
		return nil, err
	}
	found, err := load(keys)
	if err == nil {
		tx.OnCommit(func() { r.keep(epoch, found) })
	}
	return found, err
}

// recall gives the values of keys if all are known.
func (r *Recall[K, V]) recall(keys []K) (found map[K]V, epoch int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found = make(map[K]V, len(keys))
	for _, key := range keys {
		value, there := r.held[key]
		if !there {
			return nil, 0, false
		}
		found[key] = value
	}
	return found, r.epoch, true
}

// keep adds values; all that are held are of one epoch.
func (r *Recall[K, V]) keep(epoch int64, found map[K]V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if epoch < r.epoch {
		return
	}
	if r.held == nil || epoch > r.epoch || len(r.held) >= maxRecalled {
		r.held, r.epoch = map[K]V{}, epoch
	}
	for key, value := range found {
		r.held[key] = value
	}
}

// bumped tells whether the transaction itself has called Bump with a name.
func (t *Tx) bumped(name string) bool {
	for ; t != nil; t = t.parent {
		if slices.Contains(t.bumps, name) {
			return true
		}
	}
	return false
}

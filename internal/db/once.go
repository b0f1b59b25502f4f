package db

import (
	"errors"
	"fmt"
)

// Once stores a value for the whole installation, unless the key has one. It returns the value that is
// stored, and whether this call stored it; of several replicas that try at once, one does.
func (t *Tx) Once(key, value string) (stored string, first bool, err error) {
	n, err := t.Exec(`INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING`, key, value)
	if err != nil {
		return "", false, fmt.Errorf("insert %s: %w", key, err)
	}
	if n == 1 {
		return value, true, nil
	}
	if err := t.Row(`SELECT value FROM meta WHERE key = $1`, key).Scan(&stored); err != nil {
		return "", false, fmt.Errorf("read %s: %w", key, err)
	}
	return stored, false, nil
}

// Stored returns the value that Once has stored for a key, if there is one.
func Stored(q Querier, key string) (value string, ok bool, err error) {
	err = q.Row(`SELECT value FROM meta WHERE key = $1`, key).Scan(&value)
	if errors.Is(err, ErrNoRows) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read %s: %w", key, err)
	}
	return value, true, nil
}

// Lock makes transactions that lock the same name run one after the other.
func (t *Tx) Lock(name string) error {
	_, err := t.Exec(`INSERT INTO meta (key, value) VALUES ($1, '1') ON CONFLICT (key) DO UPDATE SET value = meta.value`, name)
	if err != nil {
		return fmt.Errorf("lock %s: %w", name, err)
	}
	return nil
}

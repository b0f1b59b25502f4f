package app

import (
	"context"
	"time"

	"steward/internal/db"
	"steward/internal/rotation"
)

// keyCheckEvery is how often a replica looks whether its master key was replaced.
const keyCheckEvery = 10 * time.Second

// stopIfReplaced calls stop if the master key of this process was replaced. A rotation waits for all
// processes that are alive, so this happens to one that was frozen meanwhile: what it would encrypt could not
// be read once the old key is removed.
func (s *process) stopIfReplaced(stop func()) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		if s.db.Dialect() == db.SQLite { // which has one process
			return nil
		}
		replaced, err := rotation.Replaced(s.db.Read(ctx), s.ring.KeyID())
		if replaced {
			s.log.Error("the master key of this process was replaced; it stops", "key", s.ring.KeyID())
			stop()
		}
		return err
	}
}

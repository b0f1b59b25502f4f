package app

import (
	"context"
	"time"

	"steward/internal/db"
	"steward/internal/db/move"
	"steward/internal/rotation"
)

// keyCheckEvery is the interval at which a replica checks that its master key is still current.
const keyCheckEvery = 10 * time.Second

// stopIfReplaced calls stop if this process's master key was replaced. A rotation waits for all live
// processes, so this happens to one that was frozen meanwhile: once the old key is removed, nobody
// could read the secrets that it encrypts.
func (s *process) stopIfReplaced(stop func()) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		if s.db.Dialect() == db.SQLite { // a single process
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

// movedCheckEvery is the interval at which a replica checks whether the rows were moved.
const movedCheckEvery = 5 * time.Second

// stopIfMoved calls stop if the database's rows were moved. A move waits for all live processes, so
// this happens to one that was frozen meanwhile: PostgreSQL refuses its writes, and it reads old
// rows.
func (s *process) stopIfMoved(stop func()) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		if s.db.Dialect() == db.SQLite { // a single process
			return nil
		}
		to, err := move.Moved(s.db.Read(ctx))
		if to != "" {
			s.log.Error("the rows of this database were moved; the process stops", "to", to)
			stop()
		}
		return err
	}
}

package app

import (
	"context"
	"time"

	"steward/internal/db"
	"steward/internal/db/move"
)

// movedCheckEvery is how often a replica looks whether the rows were moved.
const movedCheckEvery = 5 * time.Second

// stopIfMoved calls stop if the rows of the database were moved. A move waits for all processes that are alive,
// so this happens to one that was frozen meanwhile: PostgreSQL refuses what it writes, and what it reads is old.
func (s *process) stopIfMoved(stop func()) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		if s.db.Dialect() == db.SQLite { // which has one process
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

package db

import (
	"fmt"
	"time"

	"steward/internal/errs"
)

// RequireSchema returns Conflict while a live process does not know a migration, and so would not
// enforce a setting that came with it. SQLite has a single process, which knows it.
func RequireSchema(q Querier, now time.Time, number int64, setting string) error {
	var older int64
	err := q.Row(`SELECT count(*) FROM processes WHERE seen_at > $1 AND coalesce(schema, 0) < $2`,
		now.Add(-aliveFor).UnixMicro(), number).Scan(&older)
	if err != nil {
		return fmt.Errorf("read the versions of processes: %w", err)
	}
	if older > 0 {
		return errs.New(errs.Conflict, "%s cannot be set while a replica of an earlier version runs, which does not enforce it; "+
			"upgrade all replicas first", setting)
	}
	return nil
}

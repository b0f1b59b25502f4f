package migrate

import (
	"context"
	"time"

	"steward/internal/db"
	"steward/internal/db/move"
	"steward/internal/errs"
	"steward/internal/id"
	lease "steward/internal/job"
)

// leaseFor limits how long a killed process keeps others from moving the rows.
const leaseFor = 30 * time.Second

// runAlone runs the move, unless another process does. A SQLite database's rows are locked with
// their data directory; a PostgreSQL database's could be moved by any replica.
func (j *job) runAlone(ctx context.Context, r Request) (done Done, left bool, err error) {
	if j.source.Dialect() == db.SQLite {
		return j.run(ctx, r)
	}
	// If an interrupted move had already made the source refuse changes, we cannot get a lease.
	fenced, err := move.Fenced(j.source.Read(ctx))
	if err != nil {
		return done, false, err
	}
	if fenced {
		return j.run(ctx, r)
	}
	l := &lease.Lease{DB: j.source, Now: time.Now, Name: "move", Owner: id.New("mov"), TTL: leaseFor}
	var failed error
	held, err := l.TryHold(ctx, func(ctx context.Context) error {
		done, left, failed = j.run(ctx, r)
		return nil
	})
	if held {
		return done, left, failed // after a move, the lease cannot be released
	}
	if err == nil {
		err = errs.New(errs.Conflict, "another replica is moving the rows, or was until it was killed; try again in %v", leaseFor)
	}
	return done, false, err
}

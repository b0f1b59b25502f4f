package queue

import (
	"context"
	"time"

	"steward/internal/stamp"
)

const (
	// RecoverBatch is how many waiting attempts are made due in one transaction.
	RecoverBatch = 1000
	// recoverEvery is the time between two looks for recoveries that are not at their end.
	recoverEvery = time.Second
	// afterAll sorts after every key: `{` follows `z`.
	afterAll = "{"
)

// recovery is a destination whose waiting attempts are being made due. Its batches walk them in the order
// in which they were due. An attempt that is made due gets an earlier place in that order, so it is not
// found again; those that are added meanwhile, since an attempt failed once more, stay as they are.
type recovery struct {
	destinationID string
	rate          int64 // per second, 0 for none
	startedAt     stamp.Time
	nextDue       stamp.Time // of the next attempt
	toDue         stamp.Time // the place that the walk has reached, with toKey
	toKey         string
}

func newRecovery(destinationID string, rate int64, now stamp.Time) recovery {
	return recovery{destinationID: destinationID, rate: rate, startedAt: now, nextDue: now, toDue: now, toKey: afterAll}
}

// waitingRow is a waiting attempt in the queue.
type waitingRow struct {
	key       string
	due, date stamp.Time
}

// advance moves the walk past rows, and returns those that are due earlier than they were, with the new
// time.
func (r *recovery) advance(rows []waitingRow, now stamp.Time) (changed []waitingRow) {
	r.nextDue = max(r.nextDue, now)
	for _, row := range rows {
		r.toDue, r.toKey = row.due, row.key
		if row.date > r.startedAt {
			continue
		}
		if r.nextDue < row.due {
			changed = append(changed, waitingRow{key: row.key, due: r.nextDue})
		}
		if r.rate > 0 {
			r.nextDue = r.nextDue.Add(time.Second / time.Duration(r.rate))
		}
	}
	return changed
}

// recoverLoop continues recoveries, whichever replica they were asked of. Each gets a batch in turn, and
// the batches take at most half of the time.
func (s *Scheduler) recoverLoop(ctx context.Context) {
	for sleep(ctx, recoverEvery) {
		for busy := true; busy; {
			busy = s.recoverAll(ctx)
		}
	}
}

// recoverAll makes a batch of each recovery due, and reports whether there is more to do.
func (s *Scheduler) recoverAll(ctx context.Context) (busy bool) {
	if s.Disk.Room() != nil {
		return false
	}
	for after := ""; ; {
		some, err := s.Store.Recovering(ctx, after)
		if err != nil || len(some) == 0 {
			s.logError("list recoveries", err)
			return busy && err == nil
		}
		for _, destinationID := range some {
			after = destinationID
			began := time.Now()
			more, err := s.Store.ContinueRecovery(ctx, destinationID)
			s.logError("recover a destination", err)
			busy = busy || more
			if !sleep(ctx, time.Since(began)) {
				return false
			}
		}
	}
}

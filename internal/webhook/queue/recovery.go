package queue

import (
	"context"
	"time"

	"steward/internal/stamp"
)

const (
	// RecoverBatch bounds a destination's retries that are due while a recovery makes more of them due.
	// New events of the destination wait for no more than that.
	RecoverBatch = 128
	// recoverAhead is how long before their time a recovery with a rate plans attempts.
	recoverAhead = 2 * time.Second
	// recoverEvery is the pause between two searches for recoveries, and busyPause replaces it while there
	// are some.
	recoverEvery = time.Second
	busyPause    = 50 * time.Millisecond
	// afterAll sorts after every key, because `{` follows `z`.
	afterAll = "{"
)

// recovery makes a destination's waiting attempts due. Its batches walk them in the order they were
// due. An attempt that we make due moves to an earlier place in that order, so we do not find it
// again. Attempts added in the meantime, because one failed again, stay as they are.
type recovery struct {
	destinationID string
	rate          int64 // per second; 0 means no limit
	startedAt     stamp.Time
	nextDue       stamp.Time // for the next attempt
	toDue         stamp.Time // with toKey, the place the walk has reached
	toKey         string
}

func newRecovery(destinationID string, rate int64, now stamp.Time) recovery {
	return recovery{destinationID: destinationID, rate: rate, startedAt: now, nextDue: now, toDue: now, toKey: afterAll}
}

// room returns how many attempts may become due, or be planned, beside those that are due now.
func (r recovery) room(due int, now stamp.Time) int {
	room := RecoverBatch - due
	if r.rate > 0 {
		room = min(room, int(now.Add(recoverAhead).Sub(max(r.nextDue, now))/(time.Second/time.Duration(r.rate))))
	}
	return max(0, room)
}

// waitingRow is a waiting attempt in the queue.
type waitingRow struct {
	key       string
	due, date stamp.Time
}

// advance moves the walk past rows. It returns the rows that become due earlier than before, with the
// new time.
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

// recoverLoop continues recoveries, whichever replica started them. It gives each a batch in turn, and
// pauses after each batch for as long as it took, so that recoveries use at most half of the time.
func (s *Scheduler) recoverLoop(ctx context.Context) {
	for pause := recoverEvery; sleep(ctx, pause); {
		pause = recoverEvery
		if s.recoverAll(ctx) {
			pause = busyPause
		}
	}
}

// recoverAll makes attempts of each recovery due, and reports whether there is more to do.
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

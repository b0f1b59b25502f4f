package queue

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// maxResults and maxResultBytes bound one transaction's results.
	maxResults     = 4096
	maxResultBytes = 4 << 20
	// Results wait resultDelay for others to join them, and up to maxResultDelay while there are fewer
	// than fewResults: nobody waits for a result, and writing many costs hardly more than writing a
	// few. After a crash, we send once more whatever we sent in that time.
	resultDelay    = 30 * time.Millisecond
	maxResultDelay = 250 * time.Millisecond
	fewResults     = 32
)

// ended is a task with its result.
type ended struct {
	task   *Task
	result Result
}

// bytes estimates how much the result adds to a transaction.
func (e ended) bytes() int64 { return 256 + int64(len(e.result.Response)) }

// resultQueue collects results, which the scheduler writes in batches.
type resultQueue struct {
	scheduler *Scheduler
	queue     chan ended
	done      chan struct{}

	mu     sync.RWMutex // put holds it for reading, so that close cannot close queue while it sends
	closed bool
}

func newResultQueue(s *Scheduler) *resultQueue {
	return &resultQueue{scheduler: s, queue: make(chan ended, maxResults), done: make(chan struct{})}
}

// run writes results until close was called and the queue is empty.
func (q *resultQueue) run() {
	defer close(q.done)
	for first := range q.queue {
		q.collect()
		q.scheduler.finish(q.batch(first))
	}
}

// collect waits for more results, unless there are enough.
func (q *resultQueue) collect() {
	if len(q.queue) == maxResults {
		return
	}
	for waited := time.Duration(0); waited < maxResultDelay; waited += resultDelay {
		time.Sleep(resultDelay)
		if len(q.queue) >= fewResults {
			return
		}
	}
}

// batch returns the first result and those that wait behind it.
func (q *resultQueue) batch(first ended) []ended {
	batch := []ended{first}
	bytes := first.bytes()
	for len(batch) < maxResults && bytes < maxResultBytes {
		select {
		case next, ok := <-q.queue:
			if !ok {
				return batch
			}
			batch = append(batch, next)
			bytes += next.bytes()
		default:
			return batch
		}
	}
	return batch
}

// put adds a result. It waits while the queue is full, and returns false after close.
func (q *resultQueue) put(e ended) bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if q.closed {
		return false
	}
	q.queue <- e
	return true
}

// close refuses further results and waits until all others are written.
func (q *resultQueue) close() {
	q.mu.Lock()
	q.closed = true
	close(q.queue)
	q.mu.Unlock()
	<-q.done
}

// finish writes results. While the database is unavailable it keeps trying, since the results exist
// nowhere else. Once the process stops, it tries only for the grace period; after that, the next
// process sends the deliveries once more.
func (s *Scheduler) finish(batch []ended) {
	for {
		locked, err := s.write(batch)
		if err == nil {
			batch = s.putBack(batch, locked)
			break
		}
		s.logError("write results of deliveries", err)
		if !isUnavailable(err) {
			batch = s.finishEach(batch)
			break
		}
		if deadline := s.giveUp.Load(); deadline != 0 && time.Now().UnixNano() > deadline {
			break
		}
		time.Sleep(pollEvery)
	}
	tasks := make([]*Task, len(batch))
	for i, e := range batch {
		tasks[i] = e.task
	}
	s.start(s.lanes.written(tasks))
}

// putBack schedules another write for results whose deliveries are locked, and returns the others.
func (s *Scheduler) putBack(batch []ended, locked []Result) (others []ended) {
	isLocked := map[string]bool{}
	for _, r := range locked {
		isLocked[r.Row.Key] = true
	}
	for _, e := range batch {
		if !isLocked[e.task.Key] {
			others = append(others, e)
			continue
		}
		time.AfterFunc(pollEvery, func() {
			if !s.results.put(e) {
				s.lanes.untried(e.task)
			}
		})
	}
	return others
}

func (s *Scheduler) write(batch []ended) (locked []Result, err error) {
	results := make([]Result, len(batch))
	for i, e := range batch {
		results[i] = e.result
	}
	_, locked, err = s.Deliveries.Finish(context.Background(), results)
	return locked, err
}

// finishEach writes a failed batch's results one by one, so that a bad one fails alone. We suspect its
// response, so that delivery ends without it. finishEach returns the results except those that are
// locked, which are written later.
func (s *Scheduler) finishEach(batch []ended) (others []ended) {
	for _, e := range batch {
		locked, err := s.write([]ended{e})
		if err != nil {
			e.result.Response = ""
			var again error
			if locked, again = s.write([]ended{e}); again != nil {
				s.Log.Error("write result of a delivery", "delivery", e.task.DeliveryID(), "error", errors.Join(err, again))
			}
		}
		others = append(others, s.putBack([]ended{e}, locked)...)
	}
	return others
}

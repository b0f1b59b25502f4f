package webhook

import (
	"sync"
	"time"
)

const (
	// mostResults and mostBytes bound one transaction of results.
	mostResults = 4096
	mostBytes   = 4 << 20
	// patience is how long a result waits for others, unless there are enough.
	patience = 30 * time.Millisecond
)

// ended is a result on its way to the database.
type ended struct {
	task *task
	Result
}

// bytes is about how much it adds to a transaction.
func (e ended) bytes() int {
	if e.Response == nil {
		return 256
	}
	return 256 + len(*e.Response)
}

// batcher gathers results and hands them on together. Nobody waits for a result to be written, and each transaction rewrites the same few
// pages of the indexes, so that a few milliseconds of patience spare most of the work when there is much to do.
type batcher struct {
	flush func([]ended)

	queue chan ended
	gate  sync.RWMutex // held for reading while sending to queue, so that close never closes under a sender
	over  bool
	done  chan struct{}
}

func newBatcher(flush func([]ended)) *batcher {
	return &batcher{flush: flush, queue: make(chan ended, mostResults), done: make(chan struct{})}
}

// run works until close has been called and everything is handed on.
func (b *batcher) run() {
	defer close(b.done)
	for first := range b.queue {
		if len(b.queue) < mostResults {
			time.Sleep(patience)
		}
		batch, bytes := append(make([]ended, 0, len(b.queue)+1), first), first.bytes()
		b.flush(b.drain(batch, bytes))
	}
}

// drain takes what is there.
func (b *batcher) drain(batch []ended, bytes int) []ended {
	for len(batch) < mostResults && bytes < mostBytes {
		select {
		case next, ok := <-b.queue:
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

// put waits for a place in the queue; it is false after close.
func (b *batcher) put(item ended) bool {
	b.gate.RLock()
	defer b.gate.RUnlock()
	if b.over {
		return false
	}
	b.queue <- item
	return true
}

// close takes nothing more and waits until everything is handed on.
func (b *batcher) close() {
	b.gate.Lock()
	b.over = true
	close(b.queue)
	b.gate.Unlock()
	<-b.done
}

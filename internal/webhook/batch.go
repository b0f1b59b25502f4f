package webhook

import (
	"runtime"
	"sync"
)

// batcher gathers what waits and hands it on together: it takes one, then whatever else is there or is about to come, and never waits for
// time to pass. So a batch is as large as what arrived during the one before.
type batcher[T any] struct {
	most      int // of items in a batch
	mostBytes int
	weigh     func(T) int
	flush     func([]T)

	queue chan T
	gate  sync.RWMutex // held for reading while sending to queue, so that close never closes under a sender
	over  bool
	done  chan struct{}
}

// run works until close has been called and everything is handed on.
func (b *batcher[T]) run() {
	defer close(b.done)
	for first := range b.queue {
		batch := append(make([]T, 0, 64), first)
		bytes := b.weigh(first)
		for grown := true; grown; {
			runtime.Gosched() // to those that can run: what they bring spares another batch
			before := len(batch)
			batch, bytes = b.drain(batch, bytes)
			grown = len(batch) > before
		}
		b.flush(batch)
	}
}

// drain takes what is there.
func (b *batcher[T]) drain(batch []T, bytes int) ([]T, int) {
	for len(batch) < b.most && bytes < b.mostBytes {
		select {
		case next, ok := <-b.queue:
			if !ok {
				return batch, bytes
			}
			batch = append(batch, next)
			bytes += b.weigh(next)
		default:
			return batch, bytes
		}
	}
	return batch, bytes
}

// offer is false when too many wait, or after close.
func (b *batcher[T]) offer(item T) bool {
	b.gate.RLock()
	defer b.gate.RUnlock()
	if b.over {
		return false
	}
	select {
	case b.queue <- item:
		return true
	default:
		return false
	}
}

// put waits for a place in the queue; it is false after close.
func (b *batcher[T]) put(item T) bool {
	b.gate.RLock()
	defer b.gate.RUnlock()
	if b.over {
		return false
	}
	b.queue <- item
	return true
}

// close takes nothing more and waits until everything is handed on.
func (b *batcher[T]) close() {
	b.gate.Lock()
	b.over = true
	close(b.queue)
	b.gate.Unlock()
	<-b.done
}

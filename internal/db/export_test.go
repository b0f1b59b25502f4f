package db

import "time"

// Waiting returns the number of callers that wait for the next batch.
func (g *Gather[T]) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

// SetPoll sets how often RunWatch reads the epochs, before it starts.
func (d *DB) SetPoll(every time.Duration) { d.poll = every }

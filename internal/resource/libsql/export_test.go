package libsql

import "steward/internal/budget"

// Sessions returns the number of requests that use a database.
func (e *Engine) Sessions(id string) int {
	d := e.opened(id)
	if d == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.sessions)
}

// Sharing returns the number of statements of a database that wait to share a commit.
func (e *Engine) Sharing(id string) int {
	d := e.opened(id)
	if d == nil {
		return 0
	}
	return d.batch.Waiting()
}

// Opened returns the number of open connections.
func (e *Engine) Opened() int64 { return inUse(e.connections) + inUse(e.kept) }

// MemoryUsed returns the bytes that are charged for requests.
func (e *Engine) MemoryUsed() int64 { return inUse(e.memory) }

// Running returns the number of statements that have their turn.
func (e *Engine) Running() int { return e.queue.Running() }

// Waiting returns the number of statements that wait for their turn.
func (e *Engine) Waiting() int { return e.queue.Waiting() }

func inUse(p *budget.Pool) int64 {
	u := p.Usage()
	return u.Common + u.Reserve
}

// Forwards returns the number of requests that are being passed on.
func (e *Engine) Forwards() int64 { return inUse(e.forwards) }

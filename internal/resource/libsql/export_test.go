package libsql

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

// Opened returns the number of open connections.
func (e *Engine) Opened() int64 { return e.connections.used.Load() }

// MemoryUsed returns the bytes that are charged for requests.
func (e *Engine) MemoryUsed() int64 { return e.memory.used.Load() }

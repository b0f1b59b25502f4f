package db

// Waiting tells how many have to wait for the next batch.
func (g *Gather[T]) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

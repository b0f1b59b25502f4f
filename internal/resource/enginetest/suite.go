package enginetest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/waittest"
)

func usableAtOnce(s *suite) {
	c := s.connect(s.created())
	s.set(c, "a", "1")
	s.want(c, "a", "1")
}

func createTwice(s *suite) {
	p := s.created()
	s.set(s.connect(p), "a", "1")
	s.create(p)
	s.want(s.connect(p), "a", "1")
}

func wrongPassword(s *suite) {
	p := s.created()
	other := s.created()
	s.refused(with(p, p.State, id.Secret(43)))
	s.refused(with(p, p.State, p.Password[:len(p.Password)-1]))
	s.refused(with(p, p.State, strings.ToUpper(p.Password)))
	s.refused(with(p, p.State, ""))
	if s.Type == resource.DB { // a store may be found by its password alone
		s.refused(with(p, p.State, other.Password))
	}
	unknown := s.plan()
	s.refused(unknown)
}

func deleteCutsConnections(s *suite) {
	p := s.created()
	open := s.connect(p)
	s.set(open, "a", "1")
	s.delete(p)
	if _, err := open.Get(s.t.Context(), "a"); err == nil {
		s.t.Error("a connection from before the deletion can still read")
	}
	if err := open.Set(s.t.Context(), "a", "2"); err == nil {
		s.t.Error("a connection from before the deletion can still write")
	}
	s.refused(p)
}

// deleteRemovesData creates a deleted resource again with the same id, which the manager never does, to
// see whether anything is left.
func deleteRemovesData(s *suite) {
	p := s.created()
	s.set(s.connect(p), "a", "1")
	s.delete(p)
	s.create(p)
	s.want(s.connect(p), "a", "")
}

func deleteTwice(s *suite) {
	p := s.created()
	s.delete(p)
	s.delete(p)
	s.refused(p)
}

func deleteOfNothing(s *suite) {
	other := s.created()
	c := s.connect(other)
	s.set(c, "a", "1")
	s.delete(s.plan())
	s.want(c, "a", "1")
}

func rotateReplaces(s *suite) {
	p := s.created()
	open := s.connect(p)
	s.set(open, "a", "1")
	other := s.connect(s.created())
	rotated := s.rotate(p)
	if _, err := open.Get(s.t.Context(), "a"); err == nil {
		s.t.Error("a connection made with the old password can still read")
	}
	s.refused(p)
	c := s.connect(rotated)
	s.want(c, "a", "1")
	s.set(c, "a", "2")
	s.want(other, "a", "")
}

func rotateTwice(s *suite) {
	p := s.created()
	s.set(s.connect(p), "a", "1")
	p = s.rotate(p)
	s.must(s.Engine.Rotate(s.t.Context(), p))
	s.want(s.connect(p), "a", "1")
}

func separate(s *suite) {
	one := s.connect(s.created())
	two := s.connect(s.created())
	s.set(one, "a", "1")
	s.want(two, "a", "")
	s.set(two, "a", "2")
	s.want(one, "a", "1")
}

// step is 1, or n if the rest is left to `make test-long`.
func (s *suite) step(n int) int {
	if testing.Short() {
		return n
	}
	return 1
}

// oddTexts tries names, descriptions and organization ids that break careless quoting.
func oddTexts(s *suite) {
	texts := []string{
		`'`, `"`, `\`, `'; DROP DATABASE postgres; --`, `"; DROP ROLE postgres; --`, `\'; SELECT 1; --`,
		"$$", "$tag$ x $tag$", "a\nb\r\nc", "a\x00b", "🦊 ẞ ﷽ \u202e", "../../etc/passwd", "/", "*", "~*", "%s%n",
		"{a}", " ", strings.Repeat("é", 1024), "\xff\xfe",
	}
	for i := 0; i < len(texts); i += s.step(4) {
		p := s.plan()
		text := func(j int) string { return texts[(i+j)%len(texts)] }
		p.Description = new(text(0))
		p.OrgID = text(1)
		p.Region = text(2)
		p.Name = text(3)
		s.create(p)
		s.set(s.connect(p), "a", "1")
		s.delete(p)
		s.refused(p)
	}
}

// cancelledThenRepeated cancels each operation and repeats it. The time before it cancels grows until one
// completes.
func cancelledThenRepeated(s *suite) {
	for pause := 100 * time.Microsecond; ; pause *= time.Duration(2 * s.step(4)) {
		p := s.plan()
		s.rows.put(p)
		created := s.cancelAfter(pause, func(ctx context.Context) error { return s.Engine.Create(ctx, p) })
		s.create(p)
		c := s.connect(p)
		s.set(c, "a", "1")
		next := with(p, resource.Rotating, id.Secret(43))
		s.rows.put(next)
		rotated := s.cancelAfter(pause, func(ctx context.Context) error { return s.Engine.Rotate(ctx, next) })
		s.must(s.Engine.Rotate(s.t.Context(), next))
		s.activate(next)
		s.refused(p)
		s.want(s.connect(next), "a", "1")
		s.rows.put(with(next, resource.Deleting, next.Password))
		deleted := s.cancelAfter(pause, func(ctx context.Context) error { return s.Engine.Delete(ctx, next) })
		s.delete(next)
		s.refused(next)
		if created && rotated && deleted || pause > 10*time.Second {
			return
		}
	}
}

// cancelAfter cancels an operation after a pause, and reports whether it succeeded before.
func (s *suite) cancelAfter(pause time.Duration, do func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(s.t.Context(), pause)
	defer cancel()
	return do(ctx) == nil
}

func manyAtOnce(s *suite) {
	const many = 8
	var group sync.WaitGroup
	faults := make(chan error, many)
	for range many {
		p := s.plan()
		s.rows.put(p)
		group.Go(func() { faults <- s.life(p) })
	}
	group.Wait()
	for range many {
		s.must(waittest.Receive(s.t, "a resource", faults))
	}
}

// life creates, uses and deletes a resource.
func (s *suite) life(p *resource.Provisioned) error {
	ctx := s.t.Context()
	if err := s.Engine.Create(ctx, p); err != nil {
		return err
	}
	s.activate(p)
	c, err := s.Connect(ctx, s.Engine.Connection(p))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Set(ctx, "a", "1"); err != nil {
		return err
	}
	s.rows.put(with(p, resource.Deleting, p.Password))
	if err := s.Engine.Delete(ctx, p); err != nil {
		return err
	}
	s.rows.remove(p.ID)
	return nil
}

// concurrentWithItself deletes one resource several times at once, as replicas may do.
func concurrentWithItself(s *suite) {
	p := s.created()
	s.rows.put(with(p, resource.Deleting, p.Password))
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() { _ = s.Engine.Delete(s.t.Context(), p) }) // calls may make each other fail
	}
	group.Wait()
	s.delete(p)
	s.refused(p)
}

func checkWorking(s *suite) { s.must(s.Engine.Check(s.t.Context())) }

// connectionIsOwn checks that the URL and the environment contain the credentials.
func connectionIsOwn(s *suite) {
	p := s.created()
	c := s.Engine.Connection(p)
	all := c.URL
	for _, value := range c.Env {
		all += " " + value
	}
	if !strings.Contains(all, p.ID) || !strings.Contains(all, p.Password) {
		s.t.Errorf("the connection has not the id and the password: %s %v", c.URL, c.Env)
	}
}

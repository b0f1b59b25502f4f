package faults

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"steward/internal/waittest"
)

// area is a part of the product with a way to write to it and to look for what was written. Writes are
// numbered.
type area struct {
	name string
	// write does write n. It returns nil if that is acknowledged. Unless once is set, a write that fails
	// is repeated, as a careful client does.
	write func(ctx context.Context, n int) error
	once  bool
	// missing returns which of the acknowledged writes are not there.
	missing func(ctx context.Context, acked []int) ([]int, error)
	// repeated returns how often a write was done more than once; nil if that makes no difference.
	repeated func(ctx context.Context) (int, error)
	// elsewhere says that it is served by one process of a cluster only.
	elsewhere bool

	mu      sync.Mutex // of acked
	acked   []int
	refused int
	last    time.Time
	gap     time.Duration
}

// pause is the time between two writes of an area.
const pause = 10 * time.Millisecond

// workload are clients that write until they are stopped.
type workload struct {
	t     *testing.T
	areas []*area
	stop  context.CancelFunc
	all   sync.WaitGroup
}

// work has two organizations write to all areas of a cluster.
func (c *cluster) work() *workload {
	c.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	w := &workload{t: c.t, stop: stop}
	c.t.Cleanup(func() { stop(); w.all.Wait() })
	first := c.nodes[0]
	for i, key := range []string{first.Key, first.Organization("Second")} {
		u := newTenant(c, key)
		for _, a := range u.areas() {
			a.name = fmt.Sprintf("%s of organization %d", a.name, i+1)
			w.areas = append(w.areas, a)
			w.all.Go(func() { a.run(ctx) })
		}
	}
	return w
}

func (a *area) run(ctx context.Context) {
	a.last = time.Now()
	for n := 0; ctx.Err() == nil; {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), attempt)
		err := a.write(limited, n)
		cancel()
		if err == nil {
			a.acknowledge(n)
			n++
		} else {
			a.refused++
			if a.once {
				n++
			}
		}
		sleep(ctx, pause)
	}
	a.gap = max(a.gap, time.Since(a.last))
}

func (a *area) acknowledge(n int) {
	now := time.Now()
	a.gap = max(a.gap, now.Sub(a.last))
	a.last = now
	a.mu.Lock()
	defer a.mu.Unlock()
	a.acked = append(a.acked, n)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// finish stops the clients, checks what they wrote, and adds a line to the report.
func (w *workload) finish(fault string) {
	w.t.Helper()
	w.stop()
	w.all.Wait()
	var acked, refused, lost, repeated int
	var longest *area
	for _, a := range w.areas {
		l, r := a.check(w.t)
		acked += len(a.acked)
		refused += a.refused
		lost += l
		repeated += r
		if !a.elsewhere && (longest == nil || a.gap > longest.gap) {
			longest = a
		}
		w.t.Logf("%s: %d acknowledged, %d refused, %d lost, %d repeated, longest gap %s",
			a.name, len(a.acked), a.refused, l, r, a.gap.Round(time.Millisecond))
		if len(a.acked) == 0 {
			w.t.Errorf("%s: nothing was acknowledged", a.name)
		}
	}
	report.Lock()
	defer report.Unlock()
	report.rows = append(report.rows, fmt.Sprintf("| %s | %d | %d | %d | %d | %.1f s (%s) |",
		fault, acked, refused, lost, repeated, longest.gap.Seconds(), longest.name))
}

// check fails the test if acknowledged writes of an area are lost, and returns how many are and how
// many were repeated. It waits while the area cannot be read.
func (a *area) check(t *testing.T) (lost, repeated int) {
	t.Helper()
	ctx := context.Background()
	waittest.Until(t, "acknowledged writes: "+a.name, func() (string, bool) {
		missing, err := a.missing(ctx, a.acked)
		if err != nil {
			return err.Error(), false
		}
		lost = len(missing)
		return fmt.Sprintf("%d are missing: %.10v", lost, missing), lost == 0
	})
	if a.repeated == nil {
		return lost, 0
	}
	waittest.Until(t, "repeated writes: "+a.name, func() (string, bool) {
		var err error
		repeated, err = a.repeated(ctx)
		return fmt.Sprint(err), err == nil
	})
	return lost, repeated
}

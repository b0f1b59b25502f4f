package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/waittest"
)

// area is a part of the product with a way to write to it and to look for what was written. Writes are
// numbered.
type area struct {
	name string
	// write does write n. It returns nil if that is acknowledged. Unless once is set or the name is reserved,
	// a write that fails is repeated, as a careful client does.
	write func(ctx context.Context, n int) error
	once  bool
	// missing returns which of the acknowledged writes are not there.
	missing func(ctx context.Context, acked []int) ([]int, error)
	// repeated returns how often a write was done more than once; nil if that makes no difference.
	repeated func(ctx context.Context) (int, error)
	// inconsistent returns an error if totals are not those of the rows, or rows contradict each other;
	// nil if there is nothing to compare.
	inconsistent func(ctx context.Context) error
	// elsewhere says that it is served by one process of a cluster only.
	elsewhere bool

	next int // write

	mu      sync.Mutex // of acked and refused
	acked   []int
	refused []error

	last time.Time
	gap  time.Duration
}

// pause is the time between two writes of an area, and slowPause after slow.
const (
	pause     = 20 * time.Millisecond
	slowPause = 200 * time.Millisecond
)

// workload are clients that write until they are stopped.
type workload struct {
	t       *testing.T
	tenants []*tenant
	areas   []*area
	stop    func() // waits until the last writes have ended
	slowed  atomic.Bool
}

// work has two organizations write to all areas of a cluster.
func (c *cluster) work() *workload {
	c.t.Helper()
	w := &workload{t: c.t}
	first := c.nodes[0]
	for i, key := range []string{first.Key, first.Organization("Second")} {
		u := newTenant(c, key)
		w.tenants = append(w.tenants, u)
		for _, a := range u.areas() {
			a.name = fmt.Sprintf("%s of organization %d", a.name, i+1)
			w.areas = append(w.areas, a)
		}
	}
	w.t.Cleanup(w.explain)
	w.start()
	return w
}

// explain logs why each area has refused its last writes, if the test has failed.
func (w *workload) explain() {
	for _, a := range w.areas {
		if refused := a.refusals(); w.t.Failed() && len(refused) > 0 {
			last := refused[max(0, len(refused)-20):]
			w.t.Logf("%s: after %d acknowledged, %d refusals, at last %v", a.name, a.acknowledged(), len(refused), errors.Join(last...))
		}
	}
}

// start has the clients write, also again after stop.
func (w *workload) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, a := range w.areas {
		all.Go(func() { w.run(ctx, a) })
	}
	w.stop = func() { cancel(); all.Wait() }
	w.t.Cleanup(w.stop)
}

// slow has the clients write less often. A move of rows follows what is written, and catches up only if that
// is less than the machine can copy.
func (w *workload) slow() { w.slowed.Store(true) }

func (w *workload) run(ctx context.Context, a *area) {
	a.last = time.Now()
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), attempt)
		err := a.write(limited, a.next)
		cancel()
		a.end(err)
		if w.slowed.Load() {
			sleep(ctx, slowPause)
		} else {
			sleep(ctx, pause)
		}
	}
	a.gap = max(a.gap, time.Since(a.last))
}

// end notes how a write has ended.
func (a *area) end(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.refused = append(a.refused, err)
		if a.once || isReserved(err) {
			a.next++
		}
		return
	}
	a.acked = append(a.acked, a.next)
	a.next++
	now := time.Now()
	a.gap = max(a.gap, now.Sub(a.last))
	a.last = now
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func (a *area) acknowledged() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.acked)
}

func (a *area) refusals() []error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// everywhere returns the areas that any process of a cluster serves.
func (w *workload) everywhere() (areas []*area) {
	for _, a := range w.areas {
		if !a.elsewhere {
			areas = append(areas, a)
		}
	}
	return areas
}

// more waits until each of the areas has acknowledged more writes.
func (w *workload) more(areas []*area) {
	w.t.Helper()
	w.wait("acknowledged writes", areas, (*area).acknowledged, moreWrites(w.t))
}

// refuse waits until each of the areas has refused a write.
func (w *workload) refuse(areas []*area) {
	w.t.Helper()
	w.wait("refused writes", areas, func(a *area) int { return len(a.refusals()) }, 1)
}

// wait waits until a count has grown by n in each of the areas.
func (w *workload) wait(what string, areas []*area, count func(*area) int, n int) {
	w.t.Helper()
	before := make([]int, len(areas))
	for i, a := range areas {
		before[i] = count(a)
	}
	waittest.Until(w.t, what, func() (state string, done bool) {
		missing := 0
		for i, a := range areas {
			if left := before[i] + n - count(a); left > 0 {
				missing += left
				state = fmt.Sprintf("%d in all, %d of %s", missing, left, a.name)
			}
		}
		return state, missing == 0
	})
}

// finish stops the clients, checks what they wrote, and adds a line to the report.
func (w *workload) finish(fault string) {
	w.t.Helper()
	w.stop()
	var acked, refused, lost, repeated int
	var longest *area
	for _, a := range w.areas {
		l, r := a.check(w.t)
		acked += len(a.acked)
		refused += len(a.refused)
		lost += l
		repeated += r
		if !a.elsewhere && (longest == nil || a.gap > longest.gap) {
			longest = a
		}
		w.t.Logf("%s: %d acknowledged, %d refused, %d lost, %d repeated, longest gap %s",
			a.name, len(a.acked), len(a.refused), l, r, a.gap.Round(time.Millisecond))
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
	if a.inconsistent != nil {
		waittest.Until(t, "consistency: "+a.name, func() (string, bool) {
			err := a.inconsistent(ctx)
			return fmt.Sprint(err), err == nil
		})
	}
	if a.repeated != nil {
		waittest.Until(t, "repeated writes: "+a.name, func() (string, bool) {
			var err error
			repeated, err = a.repeated(ctx)
			return fmt.Sprint(err), err == nil
		})
	}
	return lost, repeated
}

// wantNoneRefused fails the test if a request failed that any replica could have served.
func (w *workload) wantNoneRefused() {
	w.t.Helper()
	for _, a := range w.everywhere() {
		if len(a.refused) > 0 {
			w.t.Errorf("%s: %d requests failed: %.3q", a.name, len(a.refused), a.refused)
		}
	}
}

// wantNoInternal fails the test if a request was refused with status 500, other than one that may have been executed.
func (w *workload) wantNoInternal() {
	w.t.Helper()
	for _, a := range w.areas {
		for _, err := range a.refusals() {
			var got *statusError
			if errors.As(err, &got) && got.status == http.StatusInternalServerError && !strings.Contains(got.body, "not known whether the change was kept") {
				w.t.Errorf("%s: %v", a.name, err)
			}
		}
	}
}

// wantUnavailable fails the test unless refused requests got a response that says when to come back, or that
// they may have been executed.
func wantUnavailable(t testing.TB, refused []error) {
	t.Helper()
	for _, err := range refused {
		var none *url.Error
		if errors.As(err, &none) {
			t.Errorf("no response: %v", err)
		}
		var got *statusError
		if !errors.As(err, &got) {
			continue // of another protocol
		}
		unavailable := got.status == http.StatusServiceUnavailable && got.retryAfter != ""
		if !unavailable && !strings.Contains(got.body, "not known whether the change was kept") {
			t.Errorf("refused with %v (Retry-After: %q)", err, got.retryAfter)
		}
	}
}

package signin

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// burst calls do n times at the same time, with an f that takes a while, and returns how many were called
// and how many refused. It fails if one has waited for longer than promised.
func burst(t *testing.T, s *slots, n int, each, promised time.Duration) (called, refused int) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	start := time.Now()
	for range n {
		all.Go(func() {
			var waited time.Duration
			err := s.do(t.Context(), func() {
				waited = time.Since(start)
				time.Sleep(each)
			})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				called++
			} else if refused++; !errors.Is(err, ErrBusy) {
				t.Error(err)
			} else {
				waited = time.Since(start)
			}
			if waited > promised {
				t.Errorf("waited for %s", waited)
			}
		})
	}
	all.Wait()
	return called, refused
}

func TestBurstIsServedWithinTwoSecondsOrRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(2)
		called, refused := burst(t, s, 1000, firstEstimate, MaxWait)
		if called < 160 || called > 164 || called+refused != 1000 {
			t.Errorf("%d were called and %d refused, want as many as two slots can serve in two seconds", called, refused)
		}
		if called, _ := burst(t, s, 100, firstEstimate, MaxWait); called != 100 {
			t.Errorf("%d of 100 were called after the burst", called)
		}
	})
}

func TestSlowHashingShortensTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1)
		burst(t, s, 80, time.Second, slotTimeout) // the estimate is wrong at first
		for range 20 {
			burst(t, s, 1, time.Second, 0)
		}
		if called, _ := burst(t, s, 80, time.Second, slotTimeout); called > 4 {
			t.Errorf("%d were called, although each takes a second", called)
		}
	})
}

package signin_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/oidc/provider/signin"
)

const (
	estimate = 25 * time.Millisecond // for a password before one was hashed
	timeout  = 3 * time.Second       // for a request that was promised less
)

// burst checks n passwords at the same time, each of which takes a while, and returns how many were called
// and how many refused. It fails if one has waited for longer than promised.
func burst(t *testing.T, h *signin.Hasher, n int, each, promised time.Duration) (called, refused int) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	start := time.Now()
	for range n {
		all.Go(func() {
			var waited time.Duration
			h := *h
			h.Compare = func(string, string) bool {
				waited = time.Since(start)
				time.Sleep(each)
				return true
			}
			_, err := h.Check(t.Context(), "hash", "password")
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				called++
			} else if refused++; !errors.Is(err, signin.ErrBusy) {
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
		h := signin.NewHasher(2)
		called, refused := burst(t, h, 1000, estimate, signin.MaxWait)
		if called < 160 || called > 164 || called+refused != 1000 {
			t.Errorf("%d were called and %d refused, want as many as two slots can serve in two seconds", called, refused)
		}
		if called, _ := burst(t, h, 100, estimate, signin.MaxWait); called != 100 {
			t.Errorf("%d of 100 were called after the burst", called)
		}
	})
}

func TestSlowHashingShortensTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := signin.NewHasher(1)
		burst(t, h, 80, time.Second, timeout) // the estimate is wrong at first
		for range 20 {
			burst(t, h, 1, time.Second, 0)
		}
		if called, _ := burst(t, h, 80, time.Second, timeout); called > 4 {
			t.Errorf("%d were called, although each takes a second", called)
		}
	})
}

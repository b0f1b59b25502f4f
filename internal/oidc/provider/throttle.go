package provider

import (
	"context"
	"runtime"
	"sync"
	"time"

	"steward/internal/errs"
)

// throttle slows down guessing: of one account from one address, of one account from anywhere, and of anything from one address. A try that
// turns out right is given back, so nobody who knows their password is ever in its way for long. Each replica counts for itself.
type throttle struct {
	mu    sync.Mutex
	pails map[string]*pail
}

// maxPails bounds the memory; beyond it all is forgotten, which an attacker with as many addresses gains little from.
const maxPails = 100_000

// limit is how many tries are free, and how fast new ones come.
type limit struct {
	key   string
	burst float64
	every time.Duration
}

type pail struct {
	tries float64
	at    time.Time
}

func passwordLimits(email, address string) []limit {
	return []limit{
		{"pair " + address + " " + email, 10, 20 * time.Second},
		{"account " + email, 100, 5 * time.Second},
		{"address " + address, 300, 500 * time.Millisecond},
	}
}

// codeLimits are for user codes of devices, which are short enough to be guessed.
func codeLimits(address string) []limit { return []limit{{"code " + address, 20, 10 * time.Second}} }

// deviceLimits are for asking for device codes, which anybody who knows a public client can do.
func deviceLimits(address string) []limit { return []limit{{"device " + address, 100, time.Second}} }

// pushLimits are for pushing authorization requests, which anybody who knows a public client can do, too.
func pushLimits(address string) []limit {
	return []limit{{"push " + address, 200, 50 * time.Millisecond}}
}

// take counts a try against all limits. When one of them is used up nothing is counted, and the time until the next try is told.
func (t *throttle) take(now time.Time, limits []limit) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pails == nil || len(t.pails) > maxPails {
		t.pails = map[string]*pail{}
	}
	for _, l := range limits {
		if p := t.fill(now, l); p.tries < 1 {
			wait = max(wait, time.Duration((1-p.tries)*float64(l.every)))
		}
	}
	if wait == 0 {
		for _, l := range limits {
			t.pails[l.key].tries--
		}
	}
	return wait
}

func (t *throttle) fill(now time.Time, l limit) *pail {
	p := t.pails[l.key]
	if p == nil {
		p = &pail{tries: l.burst, at: now}
		t.pails[l.key] = p
	}
	p.tries = min(l.burst, p.tries+float64(now.Sub(p.at))/float64(l.every))
	p.at = now
	return p
}

// giveBack undoes take for a try that was right.
func (t *throttle) giveBack(limits []limit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range limits {
		if p := t.pails[l.key]; p != nil {
			p.tries = min(l.burst, p.tries+1)
		}
	}
}

// hashing bounds how many passwords are hashed at once: each takes 19 MiB and a core for a while.
type hashing chan struct{}

func newHashing() hashing { return make(hashing, max(1, runtime.GOMAXPROCS(0)/2)) }

// hashWait is how long a sign-in waits for its turn.
const hashWait = 10 * time.Second

// do runs f when it is its turn, or gives Unavailable.
func (h hashing) do(ctx context.Context, f func()) error {
	ctx, cancel := context.WithTimeout(ctx, hashWait)
	defer cancel()
	select {
	case h <- struct{}{}:
		defer func() { <-h }()
		f()
		return nil
	case <-ctx.Done():
		return errs.Busy(nil, "too many sign-ins at the moment")
	}
}

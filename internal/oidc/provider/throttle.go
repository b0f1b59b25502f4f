package provider

import (
	"context"
	"maps"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"steward/internal/errs"
)

// throttle slows down guessing: of one account from one address, of one account from anywhere, and of anything from one address. A try that
// turns out right is given back, so nobody who knows their password is ever in its way for long. Each replica counts for itself.
type throttle struct {
	mu    sync.Mutex
	pails map[string]pail
}

// maxPails bounds the memory.
const maxPails = 100_000

// limit is how many tries are free, and how fast new ones come.
type limit struct {
	key   string
	burst float64
	every time.Duration
}

// pail is how many tries of a limit were left at a time.
type pail struct {
	limit
	tries float64
	at    time.Time
}

// filled is the pail of a later time.
func (p pail) filled(now time.Time) pail {
	p.tries = min(p.burst, p.tries+float64(now.Sub(p.at))/float64(p.every))
	p.at = now
	return p
}

// network is what counts as one address: whoever has an IPv6 address has the 2^64 around it, too.
func network(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil || a.Unmap().Is4() {
		return address
	}
	around, err := a.WithZone("").Prefix(64)
	if err != nil {
		return address
	}
	return around.String()
}

func passwordLimits(email, address string) []limit {
	address = network(address)
	return []limit{
		{"pair " + address + " " + email, 10, 20 * time.Second},
		{"account " + email, 100, 5 * time.Second},
		{"address " + address, 300, 500 * time.Millisecond},
	}
}

// codeLimits are for user codes of devices, which are short enough to be guessed.
func codeLimits(address string) []limit {
	return []limit{{"code " + network(address), 20, 10 * time.Second}}
}

// deviceLimits are for asking for device codes, which anybody who knows a public client can do.
func deviceLimits(address string) []limit {
	return []limit{{"device " + network(address), 100, time.Second}}
}

// pushLimits are for pushing authorization requests, which anybody who knows a public client can do, too.
func pushLimits(address string) []limit {
	return []limit{{"push " + network(address), 200, 50 * time.Millisecond}}
}

// take counts a try against all limits. When one of them is used up nothing is counted or remembered, and the time until the next try is
// told.
func (t *throttle) take(now time.Time, limits []limit) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := make([]pail, len(limits))
	for i, l := range limits {
		left[i] = t.pail(now, l)
		if tries := left[i].tries; tries < 1 {
			wait = max(wait, time.Duration((1-tries)*float64(l.every)))
		}
	}
	if wait > 0 {
		return wait
	}
	t.makeRoom(now)
	for _, p := range left {
		p.tries--
		t.pails[p.key] = p
	}
	return 0
}

func (t *throttle) pail(now time.Time, l limit) pail {
	if p, ok := t.pails[l.key]; ok {
		return p.filled(now)
	}
	return pail{limit: l, tries: l.burst, at: now}
}

// makeRoom forgets pails when there are too many: those that are more than half full, so that the ones which stop somebody stay. Only if
// that leaves too many still, all are forgotten; to get there takes tens of thousands of accounts or addresses with many tries each.
func (t *throttle) makeRoom(now time.Time) {
	if t.pails != nil && len(t.pails) < maxPails {
		return
	}
	maps.DeleteFunc(t.pails, func(_ string, p pail) bool { return p.filled(now).tries > p.burst/2 })
	if t.pails == nil || len(t.pails) > maxPails/2 {
		t.pails = map[string]pail{}
	}
}

// giveBack undoes take for a try that was right.
func (t *throttle) giveBack(limits []limit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range limits {
		if p, ok := t.pails[l.key]; ok {
			p.tries = min(p.burst, p.tries+1)
			t.pails[l.key] = p
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

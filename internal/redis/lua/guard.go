package lua

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"

	gopher "github.com/yuin/gopher-lua"
)

// guard stops scripts that run too long or take too much memory.
//
// Memory is watched from outside: a script that has run for guardPause, or has made many bytes of strings, is looked at
// now and then, and stopped if the memory of the process has grown by more than its limit since and the garbage
// collector cannot free it. So short scripts pay for a timer only, and everything that a script can make is counted,
// tables, functions and coroutines included. A script that runs while other stores grow may be stopped for their sake;
// that needs all of the limit within the few seconds that it may run.
type guard struct {
	// limit is the number of bytes that a script may take, and those of its largest string.
	limit int64

	ctx   context.Context
	timer *time.Timer
	// charged are bytes of strings that were made since memory was last looked at.
	charged int64

	// mu guards what follows.
	mu       sync.Mutex
	cancel   context.CancelCauseFunc
	deadline time.Time
	timeout  time.Duration
	// base is the least memory that was in use when it was looked at; 0 before that.
	base int64
}

// guardPause is how often a script is looked at, and guardCharge after how many bytes of strings.
const (
	guardPause  = 20 * time.Millisecond
	guardCharge = 8 << 20
)

// StopError says why a script was stopped.
type StopError string

func (e StopError) Error() string { return string(e) }

// Timeout reports whether the script ran too long.
func (e StopError) Timeout() bool { return e != errMemory }

const errMemory StopError = "Script stopped: it needs too much memory."

// start begins to watch a script.
func (g *guard) start(ctx context.Context, cancel context.CancelCauseFunc, timeout time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ctx = ctx
	g.cancel = cancel
	g.timeout = timeout
	g.deadline = time.Now().Add(timeout)
	g.base = 0
	g.charged = 0
	pause := min(guardPause, timeout)
	if g.timer == nil {
		g.timer = time.AfterFunc(pause, g.look)
	} else {
		g.timer.Reset(pause)
	}
}

// stop ends watching.
func (g *guard) stop() {
	g.timer.Stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cancel = nil
	g.ctx = nil
}

// look looks at the script from time to time, in a goroutine of the timer.
func (g *guard) look() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cancel == nil {
		return // it has ended
	}
	left := time.Until(g.deadline)
	if left <= 0 {
		g.cancel(StopError(fmt.Sprintf("Script stopped: it ran longer than %v.", g.timeout)))
		return
	}
	g.checkMemory()
	g.timer.Reset(min(guardPause, max(left, 0)))
}

// checkMemory stops the script if it has taken too much memory. mu must be locked.
func (g *guard) checkMemory() {
	used := memoryInUse()
	if g.base == 0 || used < g.base { // less if there was garbage
		g.base = used
	}
	if used-g.base <= g.limit {
		return
	}
	runtime.GC()
	if memoryInUse()-g.base > g.limit {
		g.cancel(errMemory)
	}
}

// memoryInUse returns the number of bytes of all objects and stacks of the process, of which some may be garbage.
func memoryInUse() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() + samples[1].Value.Uint64())
}

// charge counts a string of n bytes that is about to be made. It raises an error if the string is too long, or if the
// script was stopped.
func (g *guard) charge(l *gopher.LState, n int) {
	if int64(n) > min(g.limit, MaxString) {
		raise(l, "string length overflow")
	}
	g.charged += int64(n)
	if g.charged < guardCharge {
		return
	}
	g.charged = 0
	g.mu.Lock()
	g.checkMemory()
	g.mu.Unlock()
	g.check(l)
}

// check raises an error if the script was stopped. What runs long without the interpreter calls it.
func (g *guard) check(l *gopher.LState) {
	if g.stopped() {
		raise(l, "%s", g.ctx.Err().Error())
	}
}

// stopped reports whether the script was stopped.
func (g *guard) stopped() bool { return g.ctx != nil && g.ctx.Err() != nil }

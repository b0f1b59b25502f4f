package lua

import (
	"fmt"
	"runtime/metrics"
	"time"

	gopher "github.com/yuin/gopher-lua"
)

// guard stops scripts that run too long or take too much memory. It is the context of the interpreter, which calls Done
// before each instruction.
//
// Each instruction is charged, and so is each function with what it is about to take. After guardStep of that, the guard
// looks at the memory. If the script may have taken more than it was granted, its values are measured: only that tells
// what it has dropped again. The guard looks at the clock after guardTicks, of which a function has more than an
// instruction.
type guard struct {
	// limit is the number of bytes that a script may take. A string has at most a quarter of that, since some errors of the
	// interpreter have copies of one.
	limit int64
	// budget is charged for what is granted beyond guardStep. It may be nil.
	budget Budget
	// measure returns the bytes of all values that the script can reach, as far as they are no more than the limit.
	measure func(limit int64) int64

	began   time.Time
	timeout time.Duration
	// poll returns why the script has to end, or "".
	poll func(elapsed time.Duration) StopError
	// stopped says why the script has to end; "" if it may go on.
	stopped StopError
	// ticks and charged have come since the guard has looked at the clock, and at the memory.
	ticks   int
	charged int64
	// live is what the script had when it was measured, and since was charged after that. held is what functions hold that
	// the script cannot reach yet.
	live, since, held int64
	// granted is what the script may take before it is measured again.
	granted int64
	// heap is what the process had when the script was measured.
	heap int64
}

// Budget is what scripts share.
type Budget interface {
	// Take takes bytes, and reports whether there was room for them.
	Take(n int64) bool
	Return(n int64)
}

// An instruction takes no more than instructionCost bytes, almost always. It is also the charge of a step in a loop.
const (
	instructionCost = 64
	guardStep       = 512 << 10
	// guardSlack is what a script is granted beyond that, so that it is rarely measured while it is small.
	guardSlack = 4 << 20
	guardTicks = 256
	// functionTicks are those of a function, which also has one for each tickBytes of its arguments.
	functionTicks = 4
	tickBytes     = 4 << 10
)

// StopError says why a script was stopped.
type StopError string

func (e StopError) Error() string { return string(e) }

// Timeout reports whether the script ran too long.
func (e StopError) Timeout() bool { return e != errMemory }

const errMemory StopError = "Script stopped: it needs too much memory."

// start begins to watch a script.
func (g *guard) start(timeout time.Duration) {
	g.began = time.Now()
	g.timeout = timeout
	g.held = 0
}

// closed is the channel of scripts that have to end.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done charges an instruction. It returns a closed channel if the script has to end, and else nil.
func (g *guard) Done() <-chan struct{} {
	g.tick(1)
	if g.stopped != "" {
		return closed
	}
	return nil
}

// Err returns why the script has to end, or nil.
func (g *guard) Err() error {
	if g.stopped == "" {
		return nil
	}
	return g.stopped
}

// Deadline returns false: Done looks at the clock.
func (g *guard) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value returns nil.
func (g *guard) Value(any) any { return nil }

// tick counts ticks, and stops the script if its time is over.
func (g *guard) tick(n int) {
	g.ticks += n
	if g.ticks < guardTicks {
		return
	}
	g.ticks = 0
	g.checkTime()
	g.spend(guardTicks * instructionCost)
}

// checkTime stops the script if its time is over.
func (g *guard) checkTime() {
	if g.stopped != "" {
		return
	}
	elapsed := time.Since(g.began)
	if elapsed > g.timeout {
		g.stopped = StopError(fmt.Sprintf("Script stopped: it ran longer than %v.", g.timeout))
	} else {
		g.stopped = g.poll(elapsed)
	}
}

// look stops the script if its time is over, or if it takes too much memory with n bytes more.
func (g *guard) look(n int64) {
	g.checkTime()
	g.since += g.charged
	g.charged = 0
	if g.stopped != "" {
		return
	}
	heap := memoryInUse()
	g.heap = min(g.heap, heap) // less if there was garbage
	if g.live+g.since <= g.granted && heap-g.heap <= g.granted-g.live {
		return
	}
	g.settle(n)
	if g.live+n > g.granted {
		g.stopped = errMemory
	}
}

// settle measures the script and grants it as much again, and what n bytes more need, as far as the budget has it.
func (g *guard) settle(n int64) {
	g.live = g.measure(g.limit) + g.held
	g.since = 0
	g.charged = 0
	g.heap = memoryInUse()
	need := min(g.live+n, g.limit)
	if !g.grant(min(2*need+guardSlack, g.limit)) {
		g.grant(max(need, guardStep))
	}
}

// grant makes n bytes what the script may take, unless the budget has no room for them.
func (g *guard) grant(n int64) bool {
	n = max(n, guardStep)
	more := n - max(g.granted, guardStep)
	switch {
	case g.budget == nil:
	case more > 0 && !g.budget.Take(more):
		return false
	case more < 0:
		g.budget.Return(-more)
	}
	g.granted = n
	return true
}

// end returns what the budget was charged for, but for what the script has left in functions that stay.
func (g *guard) end() {
	g.held = 0
	if g.granted > guardStep {
		g.settle(0)
		g.grant(g.live)
	}
}

// memoryInUse returns the number of bytes of all objects of the process, of which some may be garbage.
func memoryInUse() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64())
}

// charge counts a string of n bytes that is about to be made. It raises an error if that is too long, or if the script
// has to end.
func (g *guard) charge(l *gopher.LState, n int) {
	g.checkLength(l, n)
	g.take(l, n)
}

// checkLength raises an error if a string of n bytes is too long.
func (g *guard) checkLength(l *gopher.LState, n int) {
	if int64(n) > min(g.limit/4, MaxString) {
		raise(l, "string length overflow")
	}
}

// take counts n bytes of anything. It raises an error if the script has to end.
func (g *guard) take(l *gopher.LState, n int) {
	if !g.spend(n) {
		raise(l, "%s", g.stopped)
	}
}

// step counts a step of a loop.
func (g *guard) step(l *gopher.LState) {
	g.tick(1)
	if g.stopped != "" {
		raise(l, "%s", g.stopped)
	}
}

// hold charges n bytes that the script cannot reach before a function returns.
func (g *guard) hold(l *gopher.LState, n int) {
	g.take(l, n)
	g.held += int64(n)
}

// spend charges n bytes, and reports whether the script may go on.
func (g *guard) spend(n int) bool {
	g.charged += int64(n)
	if g.charged >= guardStep {
		g.look(int64(n))
	}
	return g.stopped == ""
}

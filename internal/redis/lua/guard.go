package lua

import (
	"fmt"
	"runtime/metrics"
	"time"

	gopher "github.com/yuin/gopher-lua"
)

// guard stops scripts that run too long or take too much memory. It is the interpreter's context, and
// the interpreter calls Done before each instruction.
//
// We charge each instruction, and each function for the memory that it is about to take. After charging
// guardStep bytes, the guard looks at the memory. If the script may have taken more than it was
// granted, we measure its values: nothing else tells us what it has dropped again. The guard looks at
// the clock every guardTicks; a function costs more ticks than an instruction.
type guard struct {
	// limit is the number of bytes that a script may take. A string may have at most a quarter, because
	// some of the interpreter's errors copy it.
	limit int64
	// budget is charged for grants beyond guardStep. It may be nil.
	budget Budget
	// measure returns the bytes in all values that the script can reach. It may stop counting above the
	// limit.
	measure func(limit int64) int64

	began   time.Time
	timeout time.Duration
	// poll returns the reason why the script must end, or "".
	poll func(elapsed time.Duration) StopError
	// stopped is the reason why the script must end; "" if it may go on.
	stopped StopError
	// ticks counts since the guard last looked at the clock, and charged since it last looked at the
	// memory.
	ticks   int
	charged int64
	// live is the script's size when last measured, and since the bytes charged after that. held counts
	// bytes that functions hold and that the script cannot reach yet.
	live, since, held int64
	// granted is the number of bytes that the script may take before we measure it again.
	granted int64
	// heap is the process's heap size when the script was measured.
	heap int64
}

// Budget is the memory that scripts share.
type Budget interface {
	// Take takes n bytes, and reports whether there was room.
	Take(n int64) bool
	Return(n int64)
}

// An instruction almost never takes more than instructionCost bytes. A loop step costs as much.
const (
	instructionCost = 64
	guardStep       = 512 << 10
	// guardSlack is granted on top, so that we rarely measure a script while it is small.
	guardSlack = 4 << 20
	guardTicks = 256
	// A function costs functionTicks, and one more tick for each tickBytes in its arguments.
	functionTicks = 4
	tickBytes     = 4 << 10
)

// StopError is the reason why a script was stopped.
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

// closed is the channel for scripts that must end.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done charges an instruction. It returns a closed channel if the script must end, and nil otherwise.
func (g *guard) Done() <-chan struct{} {
	g.tick(1)
	if g.stopped != "" {
		return closed
	}
	return nil
}

// Err returns the reason why the script must end, or nil.
func (g *guard) Err() error {
	if g.stopped == "" {
		return nil
	}
	return g.stopped
}

// Deadline returns false, because Done looks at the clock.
func (g *guard) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value returns nil.
func (g *guard) Value(any) any { return nil }

// tick counts ticks, and stops the script if its time is up.
func (g *guard) tick(n int) {
	g.ticks += n
	if g.ticks < guardTicks {
		return
	}
	g.ticks = 0
	g.checkTime()
	g.spend(guardTicks * instructionCost)
}

// checkTime stops the script if its time is up.
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

// look stops the script if its time is up, or if n more bytes would be too much memory.
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

// settle measures the script. If the budget allows, it grants twice the size with n more bytes, plus
// slack; otherwise only that size.
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

// grant sets the number of bytes that the script may take. It returns false if the budget has no room.
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

// end returns the charge to the budget, except for memory that the script has left in functions that
// stay.
func (g *guard) end() {
	g.held = 0
	if g.granted > guardStep {
		g.settle(0)
		g.grant(g.live)
	}
}

// memoryInUse returns the bytes in all the process's objects. Some may be garbage.
func memoryInUse() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64())
}

// charge counts an n-byte string that is about to be made. It raises an error if the string is too long
// or the script must end.
func (g *guard) charge(l *gopher.LState, n int) {
	g.checkLength(l, n)
	g.take(l, n)
}

// checkLength raises an error if an n-byte string is too long.
func (g *guard) checkLength(l *gopher.LState, n int) {
	if int64(n) > min(g.limit/4, MaxString) {
		raise(l, "string length overflow")
	}
}

// take counts n bytes for anything. It raises an error if the script must end.
func (g *guard) take(l *gopher.LState, n int) {
	if !g.spend(n) {
		raise(l, "%s", g.stopped)
	}
}

// step counts a loop step.
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

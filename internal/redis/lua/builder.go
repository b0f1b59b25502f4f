package lua

import (
	"strings"

	gopher "github.com/yuin/gopher-lua"
)

// builder makes a string and charges it as it grows.
type builder struct {
	*Interpreter
	l *gopher.LState
	b strings.Builder
}

// room makes room for n more bytes.
func (b *builder) room(n int) {
	b.guard.checkLength(b.l, b.b.Len()+n)
	b.guard.take(b.l, n)
	if b.b.Cap()-b.b.Len() >= n {
		return
	}
	old := b.b.Cap()
	b.guard.hold(b.l, 2*old+n)
	b.b.Grow(n)
	b.guard.held -= int64(old)
}

func (b *builder) string(s string) {
	b.room(len(s))
	b.b.WriteString(s)
}

func (b *builder) byte(c byte) {
	b.room(1)
	b.b.WriteByte(c)
}

// push pushes the string.
func (b *builder) push() int {
	b.l.Push(gopher.LString(b.b.String()))
	return 1
}

// build returns a builder.
func (i *Interpreter) build(l *gopher.LState) *builder { return &builder{Interpreter: i, l: l} }

// part copies a part of a string, so that it does not keep the whole string in memory.
func (g *guard) part(l *gopher.LState, s string) gopher.LString {
	g.hold(l, len(s))
	return gopher.LString(strings.Clone(s))
}

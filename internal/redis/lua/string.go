package lua

import (
	"math"
	"strings"

	gopher "github.com/yuin/gopher-lua"
)

// openString sets up the global variable string, and the methods and arithmetic for strings.
func (i *Interpreter) openString() {
	i.OpenLibrary("string", map[string]gopher.LGFunction{
		"byte":    i.stringByte,
		"char":    i.stringChar,
		"find":    func(l *gopher.LState) int { return i.stringFind(l, true) },
		"format":  i.stringFormat,
		"gmatch":  i.stringGmatch,
		"gfind":   i.stringGmatch,
		"gsub":    i.stringGsub,
		"len":     func(l *gopher.LState) int { l.Push(gopher.LNumber(len(stringArg(l, 1)))); return 1 },
		"lower":   i.stringMap(lowerByte),
		"match":   func(l *gopher.LState) int { return i.stringFind(l, false) },
		"rep":     i.stringRep,
		"reverse": i.stringReverse,
		"sub":     i.stringSub,
		"upper":   i.stringMap(upperByte),
	})
	meta := i.l.NewTable()
	meta.RawSetString("__index", i.globals.RawGetString("string"))
	for name, f := range map[string]func(a, b float64) float64{
		"__add": func(a, b float64) float64 { return a + b },
		"__sub": func(a, b float64) float64 { return a - b },
		"__mul": func(a, b float64) float64 { return a * b },
		"__div": func(a, b float64) float64 { return a / b },
		"__mod": func(a, b float64) float64 { return a - math.Floor(a/b)*b },
		"__pow": math.Pow,
		"__unm": func(a, _ float64) float64 { return -a },
	} {
		meta.RawSetString(name, i.function(stringArithmetic(name, f)))
	}
	i.l.SetMetatable(gopher.LString(""), meta)
}

// stringArithmetic returns an operator for operands that include a string. The interpreter's own would
// read leading zeros as octal.
func stringArithmetic(name string, f func(a, b float64) float64) gopher.LGFunction {
	return func(l *gopher.LState) int {
		a, okA := Number(l.Get(1))
		b, okB := Number(l.Get(2))
		if name == "__unm" {
			b, okB = 0, true
		}
		if okA && okB {
			l.Push(gopher.LNumber(f(a, b)))
			return 1
		}
		bad := l.Get(2)
		if bad.Type() != gopher.LTString && okA {
			if op, ok := l.GetMetaField(bad, name).(*gopher.LFunction); ok {
				l.Push(op)
				l.Push(l.Get(1))
				l.Push(bad)
				l.Call(2, 1)
				return 1
			}
		}
		if !okA {
			bad = l.Get(1)
		}
		raise(l, "attempt to perform arithmetic on a %s value", bad.Type())
		return 0
	}
}

// span returns the part between two positions in an n-byte text. Negative positions count from the end.
func span(n, first, last int) (from, to int) {
	if first < 0 {
		first = max(first+n+1, 1)
	}
	if last < 0 {
		last += n + 1
	}
	first = max(first, 1)
	last = min(last, n)
	if first > last {
		return 0, 0
	}
	return first - 1, last
}

func (i *Interpreter) stringSub(l *gopher.LState) int {
	s := stringArg(l, 1)
	from, to := span(len(s), intArg(l, 2, noDefault), intArg(l, 3, -1))
	l.Push(i.guard.part(l, s[from:to]))
	return 1
}

func (i *Interpreter) stringByte(l *gopher.LState) int {
	s := stringArg(l, 1)
	first := intArg(l, 2, 1)
	from, to := span(len(s), first, intArg(l, 3, first))
	if to-from > maxResults {
		raise(l, "string slice too long")
	}
	for _, c := range []byte(s[from:to]) {
		l.Push(gopher.LNumber(c))
	}
	return to - from
}

func (i *Interpreter) stringChar(l *gopher.LState) int {
	b := i.build(l)
	for n := 1; n <= l.GetTop(); n++ {
		c := int32(intArg(l, n, noDefault)) // as C takes it
		if c < 0 || c > 255 {
			argError(l, n, "invalid value")
		}
		b.byte(byte(c))
	}
	return b.push()
}

func lowerByte(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 32
	}
	return c
}

func upperByte(c byte) byte {
	if c >= 'a' && c <= 'z' {
		return c - 32
	}
	return c
}

// stringMap returns a function that changes each byte in a string.
func (i *Interpreter) stringMap(f func(byte) byte) gopher.LGFunction {
	return func(l *gopher.LState) int {
		s := stringArg(l, 1)
		b := i.build(l)
		b.room(len(s))
		for n := range len(s) {
			b.b.WriteByte(f(s[n]))
		}
		return b.push()
	}
}

func (i *Interpreter) stringReverse(l *gopher.LState) int {
	s := stringArg(l, 1)
	b := i.build(l)
	b.room(len(s))
	for n := len(s) - 1; n >= 0; n-- {
		b.b.WriteByte(s[n])
	}
	return b.push()
}

func (i *Interpreter) stringRep(l *gopher.LState) int {
	s := stringArg(l, 1)
	n := intArg(l, 2, noDefault)
	if n <= 0 || s == "" {
		l.Push(gopher.LString(""))
		return 1
	}
	if n > MaxString/len(s) {
		raise(l, "string length overflow")
	}
	b := i.build(l)
	b.room(n * len(s))
	b.b.WriteString(s)
	for rest := (n - 1) * len(s); rest > 0; rest = n*len(s) - b.b.Len() {
		b.b.WriteString(b.b.String()[:min(rest, b.b.Len())])
	}
	return b.push()
}

// stringFind implements string.find, and string.match if no positions are wanted.
func (i *Interpreter) stringFind(l *gopher.LState, positions bool) int {
	s, pattern := stringArg(l, 1), stringArg(l, 2)
	from := intArg(l, 3, 1)
	if from < 0 {
		from = max(from+len(s)+1, 1)
	}
	from = min(max(from, 1)-1, len(s))
	if positions && (gopher.LVAsBool(l.Get(4)) || !strings.ContainsAny(pattern, "^$*+?.([%-")) {
		at := strings.Index(s[from:], pattern)
		if at < 0 {
			l.Push(gopher.LNil)
			return 1
		}
		l.Push(gopher.LNumber(from + at + 1))
		l.Push(gopher.LNumber(from + at + len(pattern)))
		return 2
	}
	m := &matcher{Interpreter: i, l: l, text: s, pattern: pattern}
	start, end := m.find(from)
	if start < 0 {
		l.Push(gopher.LNil)
		return 1
	}
	if !positions {
		return m.pushCaptures(start, end, true)
	}
	l.Push(gopher.LNumber(start + 1))
	l.Push(gopher.LNumber(end))
	return 2 + m.pushCaptures(start, end, false)
}

func (i *Interpreter) stringGmatch(l *gopher.LState) int {
	m := &matcher{Interpreter: i, text: stringArg(l, 1), pattern: stringArg(l, 2)}
	at := 0
	next := func(l *gopher.LState) int {
		m.l = l
		for ; at <= len(m.text); at++ {
			m.captures = m.captures[:0]
			start := at
			end := m.match(at, 0)
			if end < 0 {
				continue
			}
			at = end
			if end == start {
				at++
			}
			return m.pushCaptures(start, end, true)
		}
		l.Push(gopher.LNil)
		return 1
	}
	// The text is an upvalue only so that we measure it with the function.
	l.Push(l.NewClosure(i.guarded(next), gopher.LString(m.text), gopher.LString(m.pattern)))
	return 1
}

func (i *Interpreter) stringGsub(l *gopher.LState) int {
	s, pattern := stringArg(l, 1), stringArg(l, 2)
	switch l.Get(3).Type() {
	case gopher.LTString, gopher.LTNumber, gopher.LTTable, gopher.LTFunction:
	default:
		argError(l, 3, "string/function/table expected")
	}
	limit := intArg(l, 4, len(s)+1)
	m := &matcher{Interpreter: i, l: l, text: s, pattern: pattern}
	anchored := strings.HasPrefix(pattern, "^")
	p := 0
	if anchored {
		p = 1
	}
	b := i.build(l)
	at, n := 0, 0
	for n < limit {
		m.captures = m.captures[:0]
		end := m.match(at, p)
		if end >= 0 {
			n++
			m.replace(b, l.Get(3), at, end)
		}
		switch {
		case end > at:
			at = end
		case at < len(s):
			b.byte(s[at])
			at++
		default:
			at++
		}
		if at > len(s) || anchored {
			break
		}
	}
	if at < len(s) {
		b.string(s[at:])
	}
	b.push()
	l.Push(gopher.LNumber(n))
	return 2
}

// replace appends the replacement for a match.
func (m *matcher) replace(b *builder, by gopher.LValue, start, end int) {
	var v gopher.LValue
	switch by := by.(type) {
	case *gopher.LTable:
		v = m.l.GetTable(by, m.value(0, start, end))
	case *gopher.LFunction:
		m.l.Push(by)
		n := m.pushCaptures(start, end, true)
		m.l.Call(n, 1)
		v = m.l.Get(-1)
		m.l.Pop(1)
	default:
		m.expand(b, Text(by), start, end)
		return
	}
	switch {
	case gopher.LVIsFalse(v):
		b.string(m.text[start:end])
	case gopher.LVCanConvToString(v):
		b.string(Text(v))
	default:
		raise(m.l, "invalid replacement value (a %s)", v.Type())
	}
}

// expand appends a text in which %1 means the first capture.
func (m *matcher) expand(b *builder, text string, start, end int) {
	for k := 0; k < len(text); k++ {
		c := text[k]
		if c != '%' {
			b.byte(c)
			continue
		}
		k++
		switch {
		case k == len(text):
			b.byte(0)
		case text[k] == '0':
			b.string(m.text[start:end])
		case isDigit(text[k]):
			b.string(Text(m.value(int(text[k]-'1'), start, end)))
		default:
			b.byte(text[k])
		}
	}
}

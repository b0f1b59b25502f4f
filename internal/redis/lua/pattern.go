package lua

import gopher "github.com/yuin/gopher-lua"

// matcher matches a Lua pattern. We count its steps, because some patterns take polynomial time in the
// text's length.
type matcher struct {
	*Interpreter
	l        *gopher.LState
	text     string
	pattern  string
	captures []capture
	depth    int
}

// capture is a part of the text. Its length is openCapture until it ends, and positionCapture if only
// its start is wanted.
type capture struct{ start, length int }

const (
	openCapture     = -1
	positionCapture = -2
	maxCaptures     = 32
	maxMatchDepth   = 10000
)

// match reports where the pattern from p on, anchored at s, stops matching, or -1 if it does not match.
func (m *matcher) match(s, p int) int {
	m.depth++
	defer func() { m.depth-- }()
	if m.depth > maxMatchDepth {
		raise(m.l, "pattern too complex")
	}
	for {
		m.guard.step(m.l)
		if p == len(m.pattern) {
			return s
		}
		switch c := m.pattern[p]; {
		case c == '(' && p+1 < len(m.pattern) && m.pattern[p+1] == ')':
			return m.matchCapture(s, p+2, positionCapture)
		case c == '(':
			return m.matchCapture(s, p+1, openCapture)
		case c == ')':
			return m.endCapture(s, p+1)
		case c == '$' && p+1 == len(m.pattern):
			if s == len(m.text) {
				return s
			}
			return -1
		case c == '%' && p+1 < len(m.pattern) && m.pattern[p+1] == 'b':
			if s = m.matchBalance(s, p+2); s < 0 {
				return -1
			}
			p += 4
			continue
		case c == '%' && p+1 < len(m.pattern) && m.pattern[p+1] == 'f':
			end, ok := m.matchFrontier(s, p+2)
			if !ok {
				return -1
			}
			p = end
			continue
		case c == '%' && p+1 < len(m.pattern) && isDigit(m.pattern[p+1]):
			if s = m.matchBack(s, m.pattern[p+1]); s < 0 {
				return -1
			}
			p += 2
			continue
		}
		end := m.classEnd(p)
		next := byte(0)
		if end < len(m.pattern) {
			next = m.pattern[end]
		}
		switch next {
		case '?':
			if m.single(s, p, end) {
				if r := m.match(s+1, end+1); r >= 0 {
					return r
				}
			}
			p = end + 1
		case '*':
			return m.longest(s, p, end)
		case '+':
			if !m.single(s, p, end) {
				return -1
			}
			return m.longest(s+1, p, end)
		case '-':
			return m.shortest(s, p, end)
		default:
			if !m.single(s, p, end) {
				return -1
			}
			s++
			p = end
		}
	}
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// classEnd returns the end of the character class at p.
func (m *matcher) classEnd(p int) int {
	c := m.pattern[p]
	p++
	if c == '%' {
		if p == len(m.pattern) {
			raise(m.l, "malformed pattern (ends with '%s')", "%")
		}
		return p + 1
	}
	if c != '[' {
		return p
	}
	if p < len(m.pattern) && m.pattern[p] == '^' {
		p++
	}
	for first := true; first || p >= len(m.pattern) || m.pattern[p] != ']'; first = false {
		if p >= len(m.pattern) {
			raise(m.l, "malformed pattern (missing ']')")
		}
		if m.pattern[p] == '%' {
			p++
		}
		p++
	}
	return p + 1
}

// single reports whether the character at s is in the class from p to end.
func (m *matcher) single(s, p, end int) bool {
	if s >= len(m.text) {
		return false
	}
	c := m.text[s]
	switch m.pattern[p] {
	case '.':
		return true
	case '%':
		return inClass(c, m.pattern[p+1])
	case '[':
		return inSet(c, m.pattern[p+1:end-1])
	}
	return m.pattern[p] == c
}

// inSet reports whether a character is in a set, which is given without its brackets.
func inSet(c byte, set string) bool {
	found := true
	if set != "" && set[0] == '^' {
		found = false
		set = set[1:]
	}
	for k := 0; k < len(set); k++ {
		switch {
		case set[k] == '%' && k+1 < len(set):
			k++
			if inClass(c, set[k]) {
				return found
			}
		case k+2 < len(set) && set[k+1] == '-':
			if set[k] <= c && c <= set[k+2] {
				return found
			}
			k += 2
		case set[k] == c:
			return found
		}
	}
	return !found
}

// inClass reports whether a character is in the class after a percent sign: a letter's class, or any
// other character itself.
func inClass(c, class byte) bool {
	var in bool
	switch class | 0x20 {
	case 'a':
		in = isAlpha(c)
	case 'c':
		in = c < 32 || c == 127
	case 'd':
		in = isDigit(c)
	case 'l':
		in = c >= 'a' && c <= 'z'
	case 'p':
		in = c > 32 && c < 127 && !isAlpha(c) && !isDigit(c)
	case 's':
		in = isLuaSpace(c)
	case 'u':
		in = c >= 'A' && c <= 'Z'
	case 'w':
		in = isAlpha(c) || isDigit(c)
	case 'x':
		in = isHex(c)
	case 'z':
		in = c == 0
	default:
		return class == c
	}
	if !isAlpha(class) {
		return class == c
	}
	return in == (class >= 'a')
}

func isHex(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// longest matches as many characters in a class as it can, and then the rest.
func (m *matcher) longest(s, p, end int) int {
	n := 0
	for m.single(s+n, p, end) {
		m.guard.step(m.l)
		n++
	}
	for ; n >= 0; n-- {
		if r := m.match(s+n, end+1); r >= 0 {
			return r
		}
	}
	return -1
}

// shortest matches as few characters in a class as it can, and then the rest.
func (m *matcher) shortest(s, p, end int) int {
	for {
		if r := m.match(s, end+1); r >= 0 {
			return r
		}
		if !m.single(s, p, end) {
			return -1
		}
		s++
	}
}

// matchCapture begins a capture.
func (m *matcher) matchCapture(s, p, length int) int {
	if len(m.captures) >= maxCaptures {
		raise(m.l, "too many captures")
	}
	m.captures = append(m.captures, capture{s, length})
	n := len(m.captures)
	r := m.match(s, p)
	if r < 0 {
		m.captures = m.captures[:n-1]
	}
	return r
}

// endCapture ends the innermost open capture.
func (m *matcher) endCapture(s, p int) int {
	for k := len(m.captures) - 1; k >= 0; k-- {
		if m.captures[k].length != openCapture {
			continue
		}
		m.captures[k].length = s - m.captures[k].start
		r := m.match(s, p)
		if r < 0 {
			m.captures[k].length = openCapture
		}
		return r
	}
	raise(m.l, "invalid pattern capture")
	return -1
}

// matchBalance matches a balanced text between the two characters at p.
func (m *matcher) matchBalance(s, p int) int {
	if p+1 >= len(m.pattern) {
		raise(m.l, "unbalanced pattern")
	}
	if s >= len(m.text) || m.text[s] != m.pattern[p] {
		return -1
	}
	open, shut := m.pattern[p], m.pattern[p+1]
	depth := 1
	for s++; s < len(m.text); s++ {
		m.guard.step(m.l)
		switch m.text[s] {
		case shut:
			depth--
			if depth == 0 {
				return s + 1
			}
		case open:
			depth++
		}
	}
	return -1
}

// matchFrontier matches the position where a set begins, and returns the set's end in the pattern.
func (m *matcher) matchFrontier(s, p int) (int, bool) {
	if p >= len(m.pattern) || m.pattern[p] != '[' {
		raise(m.l, "missing '[' after '%s' in pattern", "%f")
	}
	end := m.classEnd(p)
	before, here := byte(0), byte(0)
	if s > 0 {
		before = m.text[s-1]
	}
	if s < len(m.text) {
		here = m.text[s]
	}
	set := m.pattern[p+1 : end-1]
	return end, !inSet(before, set) && inSet(here, set)
}

// matchBack matches a capture's text again.
func (m *matcher) matchBack(s int, digit byte) int {
	k := int(digit) - '1'
	if k < 0 || k >= len(m.captures) || m.captures[k].length == openCapture {
		raise(m.l, "invalid capture index")
	}
	c := m.captures[k]
	if c.length < 0 || c.length > len(m.text)-s || m.text[c.start:c.start+c.length] != m.text[s:s+c.length] {
		return -1
	}
	return s + c.length
}

// value returns a capture in a match from start to end, or the whole match if there are no captures.
func (m *matcher) value(k, start, end int) gopher.LValue {
	if k >= len(m.captures) {
		if k != 0 {
			raise(m.l, "invalid capture index")
		}
		return m.guard.part(m.l, m.text[start:end])
	}
	c := m.captures[k]
	if c.length == positionCapture {
		return gopher.LNumber(c.start + 1)
	}
	if c.length == openCapture {
		raise(m.l, "unfinished capture")
	}
	return m.guard.part(m.l, m.text[c.start:c.start+c.length])
}

// pushCaptures pushes all captures, or the whole match if there are none and whole is set.
func (m *matcher) pushCaptures(start, end int, whole bool) int {
	n := len(m.captures)
	if n == 0 && whole {
		n = 1
	}
	for k := range n {
		m.l.Push(m.value(k, start, end))
	}
	return n
}

// find returns the first match from a position on, or -1.
func (m *matcher) find(s int) (start, end int) {
	p := 0
	anchored := m.pattern != "" && m.pattern[0] == '^'
	if anchored {
		p = 1
	}
	for ; s <= len(m.text); s++ {
		m.captures = m.captures[:0]
		if e := m.match(s, p); e >= 0 {
			return s, e
		}
		if anchored {
			break
		}
	}
	return -1, -1
}

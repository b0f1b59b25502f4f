package webhook

import (
	"bytes"
	"strings"

	"steward/internal/web"
)

// maxNesting is how deep JSON may go: as deep as encoding/json goes.
const maxNesting = 10_000

// glance passes over a text once, to tell whether it is JSON and whether there is white space in it. It says the same as json.Valid; pages
// full of payloads made that half of their cost.
type glance struct {
	text   []byte
	at     int
	spaced bool
}

func (g *glance) isJSON() bool {
	ok := g.value(1)
	g.peek()
	return ok && g.at == len(g.text)
}

// peek passes over white space and gives the byte that follows, 0 at the end.
func (g *glance) peek() byte {
	for ; g.at < len(g.text); g.at++ {
		switch c := g.text[g.at]; c {
		case ' ', '\t', '\r', '\n':
			g.spaced = true
		default:
			return c
		}
	}
	return 0
}

// here is the byte at hand, 0 at the end.
func (g *glance) here() byte {
	if g.at < len(g.text) {
		return g.text[g.at]
	}
	return 0
}

// take passes over a byte if it is this one.
func (g *glance) take(c byte) bool {
	ok := g.here() == c && g.at < len(g.text)
	if ok {
		g.at++
	}
	return ok
}

func (g *glance) value(depth int) bool {
	switch g.peek() {
	case '"':
		return g.string()
	case '{':
		return g.members(depth, '}')
	case '[':
		return g.members(depth, ']')
	case 't':
		return g.word("true")
	case 'f':
		return g.word("false")
	case 'n':
		return g.word("null")
	}
	return g.number()
}

// members is an object or an array, by its end.
func (g *glance) members(depth int, end byte) bool {
	g.at++
	if g.peek() == end {
		g.at++
		return depth <= maxNesting
	}
	for depth <= maxNesting {
		if end == '}' && !g.key() || !g.value(depth+1) {
			return false
		}
		switch g.peek() {
		case ',':
			g.at++
		case end:
			g.at++
			return true
		default:
			return false
		}
	}
	return false
}

func (g *glance) key() bool {
	if g.peek() != '"' || !g.string() || g.peek() != ':' {
		return false
	}
	g.at++
	return true
}

func (g *glance) string() bool {
	for i := web.NextSpecial(g.text, g.at+1); i < len(g.text); i = web.NextSpecial(g.text, i+1) {
		switch c := g.text[i]; {
		case c == '"':
			g.at = i + 1
			return true
		case c == '\\':
			n := escape(g.text[i+1:])
			if n == 0 {
				return false
			}
			i += n
		case c < ' ':
			return false
		}
	}
	return false
}

// escape gives the length of what follows a backslash, 0 if it is wrong.
func escape(text []byte) int {
	if len(text) == 0 {
		return 0
	}
	if strings.IndexByte(`"\/bfnrt`, text[0]) >= 0 {
		return 1
	}
	if text[0] != 'u' || len(text) < 5 {
		return 0
	}
	for _, c := range text[1:5] {
		if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
			return 0
		}
	}
	return 5
}

func (g *glance) word(word string) bool {
	ok := bytes.HasPrefix(g.text[g.at:], []byte(word))
	g.at += len(word)
	return ok
}

func (g *glance) number() bool {
	g.take('-')
	if !g.take('0') && !g.digits() {
		return false
	}
	if g.take('.') && !g.digits() {
		return false
	}
	if g.here()|0x20 == 'e' {
		g.at++
		if !g.take('+') {
			g.take('-')
		}
		return g.digits()
	}
	return true
}

func (g *glance) digits() bool {
	start := g.at
	for isDigit(g.here()) {
		g.at++
	}
	return g.at > start
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

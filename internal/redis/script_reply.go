package redis

import (
	"bytes"
	"strconv"
	"strings"

	gopher "github.com/yuin/gopher-lua"

	"steward/internal/redis/lua"
)

// replyReader turns a command's reply into a Lua value.
type replyReader struct {
	*interpreter
	l *gopher.LState
	b []byte
}

// line takes a line.
func (r *replyReader) line() string {
	line, rest, _ := bytes.Cut(r.b, []byte("\r\n"))
	r.b = rest
	return string(line)
}

// take takes n bytes and the line end after them.
func (r *replyReader) take(n int) gopher.LString {
	s := r.NewString(r.l, r.b[:n])
	r.b = r.b[n+2:]
	return s
}

// value takes a value.
func (r *replyReader) value() gopher.LValue {
	line := r.line()
	kind, text := line[0], line[1:]
	switch kind {
	case '+':
		return r.field("ok", gopher.LString(text))
	case '-':
		t := r.field("err", gopher.LString(withCode(text)))
		t.RawSetString(countedField, gopher.LTrue)
		return t
	case '_':
		return gopher.LNil
	case '#':
		return gopher.LBool(text == "t")
	case ',':
		v, _ := strconv.ParseFloat(text, 64)
		return r.field("double", gopher.LNumber(v))
	case '(':
		return r.field("big_number", gopher.LString(text))
	}
	n, _ := strconv.Atoi(text)
	if kind == ':' {
		return gopher.LNumber(n)
	}
	if n < 0 {
		return gopher.LFalse
	}
	return r.sized(kind, n)
}

// sized takes a value whose first line has a length.
func (r *replyReader) sized(kind byte, n int) gopher.LValue {
	switch kind {
	case '$':
		return r.take(n)
	case '=':
		text := r.take(n)
		t := r.NewTable(r.l)
		t.RawSetString("format", text[:3])
		t.RawSetString("string", text[4:])
		return r.field("verbatim_string", t)
	case '%':
		t := r.NewTable(r.l)
		for range n {
			key := r.value()
			t.RawSet(key, r.value())
		}
		return r.field("map", t)
	case '~':
		t := r.NewTable(r.l)
		for range n {
			t.RawSet(r.value(), gopher.LTrue)
		}
		return r.field("set", t)
	default:
		t := r.NewTable(r.l)
		for i := range n {
			t.RawSetInt(i+1, r.value())
		}
		return t
	}
}

// field returns a table with one field.
func (r *replyReader) field(name string, v gopher.LValue) *gopher.LTable {
	t := r.l.NewTable()
	t.RawSetString(name, v)
	return t
}

// replyWriter appends Lua values as a reply.
type replyWriter struct {
	*interpreter
	out *reply
	// resp3 reports whether the script has chosen RESP3, in which true and false have their own
	// replies.
	resp3 bool
	// limit caps the reply's size in bytes.
	limit int
	err   error
}

// maxReplyDepth is how deep a reply may nest tables.
const maxReplyDepth = 1000

func (w *replyWriter) value(v gopher.LValue, depth int) {
	if len(w.out.b) > w.limit || !w.Step() {
		w.err = errorf("ERR the reply of the script is too long")
	}
	if w.err != nil || w.out.full {
		return
	}
	switch v := v.(type) {
	case gopher.LString:
		w.out.bulk(string(v))
	case gopher.LNumber:
		w.out.int(lua.Integer(float64(v)))
	case gopher.LBool:
		w.bool(bool(v))
	case *gopher.LTable:
		if depth > maxReplyDepth {
			w.out.error("ERR reached lua stack limit")
			return
		}
		w.table(w.Original(v), depth+1)
	default:
		w.out.null()
	}
}

func (w *replyWriter) bool(v bool) {
	switch {
	case w.resp3:
		w.out.boolean(v)
	case v:
		w.out.int(1)
	default:
		w.out.null()
	}
}

// boolean appends a RESP3 boolean, or a number in RESP2.
func (r *reply) boolean(v bool) {
	if r.resp3 {
		r.bool(v)
	} else {
		r.flag(v)
	}
}

// table appends a table. One of its fields may name the kind of reply; otherwise it is a list.
func (w *replyWriter) table(t *gopher.LTable, depth int) {
	if s, ok := t.RawGetString("err").(gopher.LString); ok {
		w.out.error(cString(s))
		return
	}
	if s, ok := t.RawGetString("ok").(gopher.LString); ok {
		w.out.simple(oneLine(cString(s)))
		return
	}
	if v, ok := t.RawGetString("double").(gopher.LNumber); ok {
		w.out.double(float64(v))
		return
	}
	if s, ok := t.RawGetString("big_number").(gopher.LString); ok {
		w.out.bigNumber(oneLine(cString(s)))
		return
	}
	if inner, ok := t.RawGetString("verbatim_string").(*gopher.LTable); ok {
		format, hasFormat := inner.RawGetString("format").(gopher.LString)
		text, hasText := inner.RawGetString("string").(gopher.LString)
		if hasFormat && hasText {
			w.out.verbatimOf(string(format), string(text))
			return
		}
	}
	if inner, ok := t.RawGetString("map").(*gopher.LTable); ok {
		w.pairs(inner, depth)
		return
	}
	if inner, ok := t.RawGetString("set").(*gopher.LTable); ok {
		w.members(inner, depth)
		return
	}
	w.list(t, depth)
}

// cString cuts a string at its first zero byte, as Redis does with errors and statuses.
func cString(s gopher.LString) string {
	text, _, _ := strings.Cut(string(s), "\x00")
	return text
}

func oneLine(text string) string { return strings.NewReplacer("\r", " ", "\n", " ").Replace(text) }

// bigNumber appends a large number, which RESP2 sends as a string.
func (r *reply) bigNumber(text string) {
	if !r.resp3 {
		r.bulk(text)
		return
	}
	r.b = append(r.b, '(')
	r.b = append(r.b, text...)
	r.b = append(r.b, '\r', '\n')
}

// verbatimOf appends a text with a three-letter format. RESP2 sends only the text, as a string.
func (r *reply) verbatimOf(format, text string) {
	if !r.resp3 {
		r.bulk(text)
		return
	}
	format += "   "
	r.header('=', int64(len(text))+4)
	r.b = append(r.b, format[:3]...)
	r.b = append(r.b, ':')
	r.b = append(r.b, text...)
	r.b = append(r.b, '\r', '\n')
}

// count returns the number of keys in a table.
func count(t *gopher.LTable) int {
	n := 0
	for k, _ := t.Next(gopher.LNil); k != gopher.LNil; k, _ = t.Next(k) {
		n++
	}
	return n
}

func (w *replyWriter) pairs(t *gopher.LTable, depth int) {
	w.out.mapOf(count(t))
	for k, v := t.Next(gopher.LNil); k != gopher.LNil; k, v = t.Next(k) {
		w.value(k, depth)
		w.value(v, depth)
	}
}

func (w *replyWriter) members(t *gopher.LTable, depth int) {
	w.out.set(count(t))
	for k, _ := t.Next(gopher.LNil); k != gopher.LNil; k, _ = t.Next(k) {
		w.value(k, depth)
	}
}

// list appends a table's elements up to the first nil.
func (w *replyWriter) list(t *gopher.LTable, depth int) {
	n := 0
	for t.RawGet(gopher.LNumber(n+1)) != gopher.LNil {
		n++
	}
	w.out.array(n)
	for i := range n {
		w.value(t.RawGet(gopher.LNumber(i+1)), depth)
	}
}

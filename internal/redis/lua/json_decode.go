package lua

import (
	"strconv"
	"strings"
	"unicode/utf16"

	gopher "github.com/yuin/gopher-lua"
)

// jsonDecoder reads JSON.
type jsonDecoder struct {
	*Interpreter
	l    *gopher.LState
	text string
	pos  int
	tok  jsonToken
}

// jsonToken is a JSON token. kind is its name in errors.
type jsonToken struct {
	kind  string
	value gopher.LValue
	at    int
	// problem explains an invalid token.
	problem string
}

// Errors contain these names, as in cjson.
const (
	jsonObjBegin = "T_OBJ_BEGIN"
	jsonObjEnd   = "T_OBJ_END"
	jsonArrBegin = "T_ARR_BEGIN"
	jsonArrEnd   = "T_ARR_END"
	jsonString   = "T_STRING"
	jsonNumber   = "T_NUMBER"
	jsonBoolean  = "T_BOOLEAN"
	jsonNull     = "T_NULL"
	jsonColon    = "T_COLON"
	jsonComma    = "T_COMMA"
	jsonEnd      = "T_END"
	jsonError    = "T_ERROR"
)

func (i *Interpreter) jsonDecode(l *gopher.LState) int {
	if l.GetTop() != 1 {
		argError(l, 1, "expected 1 argument")
	}
	text := stringArg(l, 1)
	if len(text) >= 2 && (text[0] == 0 || text[1] == 0) {
		raise(l, "JSON parser does not support UTF-16 or UTF-32")
	}
	d := &jsonDecoder{Interpreter: i, l: l, text: text}
	d.next()
	v := d.value(0)
	d.next()
	d.expect("the end", jsonEnd)
	l.Push(v)
	return 1
}

// expect raises an error unless the token has the given kind.
func (d *jsonDecoder) expect(what, kind string) {
	if d.tok.kind == kind {
		return
	}
	found := d.tok.kind
	if found == jsonError {
		found = d.tok.problem
	}
	raise(d.l, "Expected %s but found %s at character %d", what, found, d.tok.at+1)
}

// value returns the value that begins with the token.
func (d *jsonDecoder) value(depth int) gopher.LValue {
	switch d.tok.kind {
	case jsonString, jsonNumber, jsonBoolean, jsonNull:
		return d.tok.value
	case jsonObjBegin, jsonArrBegin:
		if depth++; depth > min(d.json.decodeDepth, maxJSONDepth) {
			raise(d.l, "Found too many nested data structures (%d) at character %d", depth, d.pos)
		}
		if d.tok.kind == jsonObjBegin {
			return d.object(depth)
		}
		return d.array(depth)
	}
	d.expect("value", "")
	return gopher.LNil
}

func (d *jsonDecoder) object(depth int) gopher.LValue {
	t := d.NewTable(d.l)
	d.next()
	if d.tok.kind == jsonObjEnd {
		return t
	}
	for {
		d.expect("object key string", jsonString)
		key := d.tok.value
		d.next()
		d.expect("colon", jsonColon)
		d.next()
		t.RawSet(key, d.value(depth))
		d.built(t)
		d.next()
		if d.tok.kind == jsonObjEnd {
			return t
		}
		d.expect("comma or object end", jsonComma)
		d.next()
	}
}

func (d *jsonDecoder) array(depth int) gopher.LValue {
	t := d.NewTable(d.l)
	d.next()
	if d.tok.kind == jsonArrEnd {
		return t
	}
	for n := 1; ; n++ {
		t.RawSetInt(n, d.value(depth))
		d.built(t)
		d.next()
		if d.tok.kind == jsonArrEnd {
			return t
		}
		d.expect("comma or array end", jsonComma)
		d.next()
	}
}

var jsonPunctuation = map[byte]string{
	'{': jsonObjBegin, '}': jsonObjEnd, '[': jsonArrBegin, ']': jsonArrEnd, ':': jsonColon, ',': jsonComma,
}

// next reads a token.
func (d *jsonDecoder) next() {
	d.guard.step(d.l)
	for d.pos < len(d.text) && strings.IndexByte(" \t\n\r", d.text[d.pos]) >= 0 {
		d.pos++
	}
	d.tok = jsonToken{at: d.pos}
	if d.pos == len(d.text) || d.text[d.pos] == 0 {
		d.tok.kind = jsonEnd
		return
	}
	c := d.text[d.pos]
	rest := d.text[d.pos:]
	kind, punctuation := jsonPunctuation[c]
	switch {
	case punctuation:
		d.take(kind, gopher.LNil, 1)
	case c == '"':
		d.string()
	case c == '-' || isDigit(c):
		d.number(rest)
	case strings.HasPrefix(rest, "true"):
		d.take(jsonBoolean, gopher.LTrue, 4)
	case strings.HasPrefix(rest, "false"):
		d.take(jsonBoolean, gopher.LFalse, 5)
	case strings.HasPrefix(rest, "null"):
		d.take(jsonNull, d.null, 4)
	case d.json.decodeInvalidNumbers && isInvalidJSONNumber(rest) && strings.IndexByte("+iInN", c) >= 0:
		d.number(rest)
	default:
		d.invalid("invalid token")
	}
}

func (d *jsonDecoder) take(kind string, v gopher.LValue, n int) {
	d.tok.kind = kind
	d.tok.value = v
	d.pos += n
}

func (d *jsonDecoder) invalid(problem string) {
	d.tok = jsonToken{kind: jsonError, problem: problem, at: d.pos}
}

// isInvalidJSONNumber reports whether a text begins with a number that C accepts and JSON does not.
func isInvalidJSONNumber(text string) bool {
	if text[0] == '+' {
		return true
	}
	text = strings.TrimPrefix(text, "-")
	if len(text) > 1 && text[0] == '0' {
		return text[1]|0x20 == 'x' || isDigit(text[1])
	}
	if len(text) < 3 {
		return false
	}
	word := strings.ToLower(text[:3])
	return word == "inf" || word == "nan"
}

// number reads a number like C's strtod.
func (d *jsonDecoder) number(rest string) {
	if !d.json.decodeInvalidNumbers && isInvalidJSONNumber(rest) {
		d.invalid("invalid number")
		return
	}
	n := numberPrefix(rest)
	v, ok := parseLuaNumber(rest[:n])
	if n == 0 || !ok {
		d.invalid("invalid number")
		return
	}
	d.take(jsonNumber, gopher.LNumber(v), n)
}

// numberPrefix returns the length of the longest prefix that is a number.
func numberPrefix(text string) int {
	n := 0
	if n < len(text) && (text[n] == '-' || text[n] == '+') {
		n++
	}
	for _, word := range []string{"infinity", "inf", "nan"} {
		if len(text)-n >= len(word) && strings.EqualFold(text[n:n+len(word)], word) {
			return n + len(word)
		}
	}
	if len(text)-n > 2 && text[n] == '0' && text[n+1]|0x20 == 'x' && isHex(text[n+2]) {
		for n += 2; n < len(text) && isHex(text[n]); n++ {
		}
		return n
	}
	digits := 0
	for ; n < len(text) && isDigit(text[n]); n++ {
		digits++
	}
	if n < len(text) && text[n] == '.' {
		for n++; n < len(text) && isDigit(text[n]); n++ {
			digits++
		}
	}
	if digits == 0 {
		return 0
	}
	if n < len(text) && text[n]|0x20 == 'e' {
		end := n + 1
		if end < len(text) && (text[end] == '-' || text[end] == '+') {
			end++
		}
		if end < len(text) && isDigit(text[end]) {
			for n = end; n < len(text) && isDigit(text[n]); n++ {
			}
		}
	}
	return n
}

// string reads a string.
func (d *jsonDecoder) string() {
	at := d.pos
	d.pos++
	b := d.build(d.l)
	for {
		if d.pos >= len(d.text) || d.text[d.pos] == 0 {
			d.invalid("unexpected end of string")
			return
		}
		c := d.text[d.pos]
		switch {
		case c == '"':
			d.tok = jsonToken{kind: jsonString, value: gopher.LString(b.b.String()), at: at}
			d.guard.held -= int64(b.b.Cap()) // it will be in a table, or is the result
			d.pos++
			return
		case c != '\\':
			b.byte(c)
			d.pos++
		case d.pos+1 < len(d.text) && d.text[d.pos+1] == 'u':
			if !d.unicode(b) {
				d.invalid("invalid unicode escape code")
				return
			}
		default:
			e, ok := jsonEscape(d.text[d.pos+1:])
			if !ok {
				d.invalid("invalid escape code")
				return
			}
			b.byte(e)
			d.pos += 2
		}
	}
}

// jsonEscape returns the character for a letter after a backslash.
func jsonEscape(text string) (byte, bool) {
	if text == "" {
		return 0, false
	}
	if at := strings.IndexByte("btnfr", text[0]); at >= 0 {
		return "\b\t\n\f\r"[at], true
	}
	return text[0], text[0] == '"' || text[0] == '\\' || text[0] == '/'
}

// unicode reads an escaped character, which may be a surrogate pair.
func (d *jsonDecoder) unicode(b *builder) bool {
	r, ok := d.unit(d.pos)
	if !ok {
		return false
	}
	d.pos += 6
	if r&0xF800 == 0xD800 {
		low, ok := d.unit(d.pos)
		if r&0x400 != 0 || !ok || low&0xFC00 != 0xDC00 {
			d.pos -= 6
			return false
		}
		d.pos += 6
		r = utf16.DecodeRune(r, low)
	}
	b.string(string(r))
	return true
}

// unit returns the number in \uXXXX at a position.
func (d *jsonDecoder) unit(pos int) (rune, bool) {
	if len(d.text)-pos < 6 || d.text[pos] != '\\' || d.text[pos+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(d.text[pos+2:pos+6], 16, 16)
	return rune(n), err == nil
}

package redis

import (
	"bufio"
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// Reader reads requests. It takes memory for the bytes that have arrived, not for those announced.
type Reader struct {
	In *bufio.Reader
	// Begun is called after a request's first line. Grow is called for the memory that a request takes
	// beyond FreeMemory. Both may be nil.
	Begun func()
	Grow  func(n int) error
	// Args and Bytes limit the arguments in a request, and its bytes.
	Args, Bytes int

	ends []int
	// hint is the last request's size, because the next one is often as large.
	hint int
}

// maxHint is the most memory that we take for a request before it arrives.
const maxHint = 1 << 10

// argOverhead estimates an argument's memory without its bytes.
const argOverhead = 32

// FreeMemory is the number of bytes up to which we do not charge requests.
const FreeMemory = 16 << 10

// ProtocolError is an error after which we close the connection.
type ProtocolError string

func (e ProtocolError) Error() string { return "ERR Protocol error: " + string(e) }

// Next returns the next request, which has at least one argument.
func (r *Reader) Next() ([]string, error) {
	for {
		line, err := r.line("too big inline request")
		if err != nil {
			return nil, err
		}
		if r.Begun != nil {
			r.Begun()
		}
		if len(line) > 0 && line[0] == '*' {
			args, err := r.multi(line)
			if err != nil || len(args) > 0 {
				return args, err
			}
			continue
		}
		args, ok := splitLine(string(line))
		if !ok {
			return nil, ProtocolError("unbalanced quotes in request")
		}
		if len(args) > r.Args {
			return nil, ProtocolError("invalid multibulk length")
		}
		if len(args) > 0 {
			return args, nil
		}
	}
}

// line returns the next line without its end. It is valid until the next read.
func (r *Reader) line(tooLong ProtocolError) ([]byte, error) {
	line, err := r.In.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, tooLong
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte{'\r'}), nil
}

// multi reads the rest of a request that is a list of strings. line is its first line.
func (r *Reader) multi(line []byte) ([]string, error) {
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil || n > r.Args {
		return nil, ProtocolError("invalid multibulk length")
	}
	var text strings.Builder
	text.Grow(r.hint)
	r.ends = r.ends[:0]
	for range n {
		if err := r.bulk(&text); err != nil {
			return nil, err
		}
		r.ends = append(r.ends, text.Len())
		if err := r.grow(text.Len(), argOverhead); err != nil {
			return nil, err
		}
	}
	r.hint = min(text.Len(), maxHint)
	args := cut(text.String(), r.ends)
	if cap(r.ends) > 1024 {
		r.ends = nil
	}
	return args, nil
}

// cut splits a text at the given ends.
func cut(text string, ends []int) []string {
	parts := make([]string, len(ends))
	start := 0
	for i, end := range ends {
		parts[i] = text[start:end]
		start = end
	}
	return parts
}

// bulk reads an argument.
func (r *Reader) bulk(text *strings.Builder) error {
	line, err := r.line("too big bulk count string")
	if err != nil {
		return err
	}
	if len(line) == 0 || line[0] != '$' {
		return ProtocolError("expected '$', got '" + string(line[:min(len(line), 1)]) + "'")
	}
	n, err := strconv.Atoi(string(line[1:]))
	used := text.Len() + len(r.ends)*argOverhead
	if err != nil || n < 0 || n > r.Bytes-used {
		return ProtocolError("invalid bulk length")
	}
	if err := r.copy(text, n); err != nil {
		return err
	}
	end, err := r.In.Peek(2)
	if err != nil {
		return err
	}
	if string(end) != "\r\n" {
		return ProtocolError("invalid bulk length")
	}
	_, err = r.In.Discard(2)
	return err
}

// copy reads n bytes into text, whose memory grows as they arrive.
func (r *Reader) copy(text *strings.Builder, n int) error {
	for n > 0 {
		part, err := r.In.Peek(min(n, max(r.In.Buffered(), 1)))
		if err != nil {
			return err
		}
		if err := r.grow(text.Len(), len(part)); err != nil {
			return err
		}
		text.Write(part)
		n -= len(part)
		if _, err := r.In.Discard(len(part)); err != nil {
			return err
		}
	}
	return nil
}

// grow charges n more bytes for a request whose arguments already take some.
func (r *Reader) grow(used, n int) error {
	if r.Grow == nil || used+len(r.ends)*argOverhead+n <= FreeMemory {
		return nil
	}
	return r.Grow(n)
}

// splitLine splits a request that was written as a line. Quotes work as in Redis. It returns false if a
// quote is not closed.
func splitLine(line string) ([]string, bool) {
	var args []string
	for {
		line = strings.TrimLeft(line, " \t\r\n\v\f\x00")
		if line == "" {
			return args, true
		}
		arg, rest, ok := cutArg(line)
		if !ok {
			return nil, false
		}
		args = append(args, arg)
		line = rest
	}
}

// cutArg returns a line's first argument and the rest.
func cutArg(line string) (arg, rest string, ok bool) {
	var text strings.Builder
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote == '"' && c == '\\' && i+3 < len(line) && line[i+1] == 'x' && isHex(line[i+2]) && isHex(line[i+3]):
			n, _ := strconv.ParseUint(line[i+2:i+4], 16, 8)
			text.WriteByte(byte(n))
			i += 3
		case quote == '"' && c == '\\' && i+1 < len(line):
			i++
			text.WriteByte(unescape(line[i]))
		case quote == '\'' && c == '\\' && i+1 < len(line) && line[i+1] == '\'':
			i++
			text.WriteByte('\'')
		case quote != 0 && c == quote:
			rest := line[i+1:]
			return text.String(), rest, rest == "" || isSpace(rest[0])
		case quote != 0:
			text.WriteByte(c)
		case c == '"' || c == '\'':
			quote = c
		case isSpace(c):
			return text.String(), line[i:], true
		default:
			text.WriteByte(c)
		}
	}
	return text.String(), "", quote == 0
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' || c == 0 }

// unescape returns the character for a letter after a backslash.
func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

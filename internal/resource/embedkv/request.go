package embedkv

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/tidwall/redcon"
)

// requests reads requests. redcon has a reader too, but its buffer has no limit, it counts to whatever
// number of arguments a client announces, and a large length makes it panic.
type requests struct {
	in *bufio.Reader
	// begun is called after the first line of a request.
	begun func()
	// grow is called for the memory of a request beyond freeMemory.
	grow func(n int) error
	// args and bytes are the maximum number of arguments of a request and of its bytes.
	args, bytes int
}

// Limits of clients that have not authenticated are those of Redis. That of other clients is what
// SQLite accepts in a statement.
const (
	loginArgs  = 10
	loginBytes = 16 << 10
	maxArgs    = 32_000
)

// argOverhead is about what an argument takes in memory beside its bytes.
const argOverhead = 32

// protocolError is an error after which a connection is closed.
type protocolError string

func (e protocolError) Error() string { return "ERR Protocol error: " + string(e) }

// next returns the next request and about the number of bytes that it takes.
func (r *requests) next() (redcon.Command, int, error) {
	for {
		line, err := r.line("too big inline request")
		if err != nil {
			return redcon.Command{}, 0, err
		}
		r.begun()
		if len(line) == 0 {
			continue
		}
		if line[0] != '*' {
			if args := bytes.Fields(line); len(args) > 0 {
				return r.inline(args)
			}
			continue
		}
		n, err := strconv.Atoi(string(line[1:]))
		if err != nil || n > r.args {
			return redcon.Command{}, 0, protocolError("invalid multibulk length")
		}
		if n > 0 {
			return r.bulks(n)
		}
	}
}

// line returns the next line without its end. It is valid until the next read.
func (r *requests) line(tooLong protocolError) ([]byte, error) {
	line, err := r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, tooLong
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte{'\r'}), nil
}

// inline returns a request that was written as a line. Quotes are not supported.
func (r *requests) inline(args [][]byte) (redcon.Command, int, error) {
	size := 0
	for i, arg := range args {
		if bytes.ContainsAny(arg, `"'`) {
			return redcon.Command{}, 0, protocolError("unbalanced quotes in request")
		}
		args[i] = bytes.Clone(arg)
		size += len(arg) + argOverhead
	}
	if len(args) > r.args {
		return redcon.Command{}, 0, protocolError("invalid multibulk length")
	}
	return redcon.Command{Args: args}, size, nil
}

// bulks reads the arguments of a request.
func (r *requests) bulks(n int) (redcon.Command, int, error) {
	var cmd redcon.Command
	size := 0
	for range n {
		arg, err := r.bulk(r.bytes - size)
		if err != nil {
			return redcon.Command{}, size, err
		}
		size += len(arg) + argOverhead
		cmd.Args = append(cmd.Args, arg)
		if size <= freeMemory {
			continue
		}
		if err := r.grow(min(len(arg), freeMemory) + argOverhead); err != nil { // bytesOf took the rest
			return redcon.Command{}, size, err
		}
	}
	return cmd, size, nil
}

// bulk reads an argument of at most limit bytes.
func (r *requests) bulk(limit int) ([]byte, error) {
	line, err := r.line("too big bulk count string")
	if err != nil {
		return nil, err
	}
	if len(line) == 0 || line[0] != '$' {
		return nil, protocolError("expected '$', got '" + string(clip(line, 1)) + "'")
	}
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil || n < 0 || n > limit {
		return nil, protocolError("invalid bulk length")
	}
	arg, err := r.bytesOf(n + 2)
	if err != nil {
		return nil, err
	}
	if arg[n] != '\r' || arg[n+1] != '\n' {
		return nil, protocolError("invalid bulk length")
	}
	return arg[:n:n], nil
}

const (
	// freeMemory is the size up to which requests and replies are not charged.
	freeMemory = 16 << 10
	// firstRead is the size of the first buffer of an argument. The next ones double it up to freeMemory.
	firstRead = 4 << 10
)

// bytesOf reads n bytes. Memory is allocated, and charged, as they come.
func (r *requests) bytesOf(n int) ([]byte, error) {
	b := make([]byte, min(n, firstRead))
	if _, err := io.ReadFull(r.in, b); err != nil {
		return nil, err
	}
	for have := len(b); have < n; have = len(b) {
		more := min(n-have, have)
		if have >= freeMemory {
			if err := r.grow(more); err != nil {
				return nil, err
			}
		}
		larger := make([]byte, have+more)
		copy(larger, b)
		b = larger
		if _, err := io.ReadFull(r.in, b[have:]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

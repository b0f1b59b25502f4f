package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// maxEvent bounds the events that we read, in bytes.
const maxEvent = 16 << 20

var errEventTooLarge = fmt.Errorf("an event is larger than %d bytes", maxEvent)

// frame is an event in a stream of server-sent events. A frame without data only tells a position.
type frame struct {
	id    string
	kind  string
	data  []byte
	retry time.Duration // 0 if the stream names none

	hasID, hasData bool
}

// frameReader reads server-sent events, with lines that end in LF or CRLF.
type frameReader struct {
	lines *bufio.Scanner
	next  frame
	size  int
}

func newFrameReader(in io.Reader) *frameReader {
	r := &frameReader{lines: bufio.NewScanner(in)}
	r.lines.Buffer(nil, maxEvent)
	return r
}

// readLine reads one line. It returns a frame if the line ends one, and io.EOF at the end of the stream,
// which discards an incomplete frame.
func (r *frameReader) readLine() (*frame, error) {
	if !r.lines.Scan() {
		return nil, r.end()
	}
	line := r.lines.Bytes()
	if len(line) == 0 {
		return r.finish(), nil
	}
	if r.size += len(line); r.size > maxEvent {
		return nil, errEventTooLarge
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	r.set(string(name), bytes.TrimPrefix(value, []byte(" ")))
	return nil, nil
}

func (r *frameReader) end() error {
	err := r.lines.Err()
	switch {
	case err == nil:
		return io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		return errEventTooLarge
	}
	return err
}

// set sets a field in the next frame. Comments have an empty name.
func (r *frameReader) set(name string, value []byte) {
	f := &r.next
	switch name {
	case "id":
		f.id = string(value)
		f.hasID = true
	case "event":
		f.kind = string(value)
	case "data":
		if f.hasData {
			f.data = append(f.data, '\n')
		}
		f.data = append(f.data, value...)
		f.hasData = true
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
			f.retry = time.Duration(ms) * time.Millisecond
		}
	}
}

func (r *frameReader) finish() *frame {
	f := r.next
	r.next = frame{}
	r.size = 0
	return &f
}

package budget

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrFull is returned by ReadAll and ReadWhenRoom if the pool has no room.
var ErrFull = errors.New("budget: the pool has no room for more")

// firstRead is the size of ReadAll's first buffer.
const firstRead = 4 << 10

// RequestBytes is about how much memory an HTTP request takes in addition to its header and its
// body.
const RequestBytes = 8 << 10

// ReadAll reads r to its end and charges c for the memory as the bytes arrive, so that a client that
// announces much and sends little takes little. announced is the expected number of bytes, or -1 if
// unknown. It returns ErrFull if the pool has no room, or r's error; then nothing stays charged.
func ReadAll(c *Charge, r io.Reader, announced int64) ([]byte, error) {
	return readAll(c, r, announced, c.Take)
}

// ReadWhenRoom is ReadAll for a client that can be kept waiting: each time the pool has no room, it
// waits, and returns ErrFull only after the given time.
func ReadWhenRoom(c *Charge, r io.Reader, announced int64, wait time.Duration) ([]byte, error) {
	return readAll(c, r, announced, func(n int64) bool {
		w := c.enqueue(n)
		if w == nil {
			return true
		}
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		return c.await(ctx, w) == nil
	})
}

func readAll(c *Charge, r io.Reader, announced int64, take func(n int64) bool) ([]byte, error) {
	before := c.Used()
	body, err := readTaking(r, announced, take)
	if err != nil {
		c.Return(c.Used() - before)
		return nil, err
	}
	return body, nil
}

// readTaking reads r to its end, and calls take before it allocates memory.
func readTaking(r io.Reader, announced int64, take func(n int64) bool) ([]byte, error) {
	var body []byte
	for {
		if len(body) == cap(body) {
			larger := nextSize(cap(body), announced)
			if !take(int64(larger - cap(body))) {
				return nil, ErrFull
			}
			grown := make([]byte, len(body), larger)
			copy(grown, body)
			body = grown
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err == io.EOF {
			return body, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// nextSize returns the next buffer's size: twice the last one's, but no more than announced, and a
// byte to find the end with.
func nextSize(size int, announced int64) int {
	next := max(firstRead, 2*size)
	if rest := int(announced) + 1; announced >= 0 && size < rest {
		return min(next, rest)
	}
	return next
}

// drainFor is how long Drain reads.
const drainFor = 2 * time.Second

// Drain discards, for a moment, the rest of a refused body: a client that has not sent all of it
// often does not read the response.
func Drain(r io.Reader, setDeadline func(time.Time) error) {
	if setDeadline(time.Now().Add(drainFor)) == nil {
		_, _ = io.Copy(io.Discard, r) // we send the response in any case
	}
}

// Pace is the slowest speed at which a client may send. Only time spent reading counts.
type Pace struct {
	// Grace is the time in which nothing has to arrive.
	Grace time.Duration
	// Rate is the average number of bytes per second that have to arrive after that.
	Rate int64
	// Limit is the time in which everything has to arrive; 0 for none.
	Limit time.Duration
}

// Body is the pace for requests that we read into memory.
var Body = Pace{Grace: 10 * time.Second, Rate: 1 << 10, Limit: time.Minute}

// Reader returns a reader of r that sets a read deadline before each read, and clears it at r's end.
// A client that falls behind gets the deadline's error, os.ErrDeadlineExceeded.
func (p Pace) Reader(r io.Reader, setDeadline func(time.Time) error) io.Reader {
	return &pacedReader{pace: p, r: r, setDeadline: setDeadline}
}

type pacedReader struct {
	pace        Pace
	r           io.Reader
	setDeadline func(time.Time) error
	read        int64
	took        time.Duration
}

func (p *pacedReader) Read(b []byte) (int, error) {
	start := time.Now()
	_ = p.setDeadline(start.Add(p.pace.allowed(p.read) - p.took)) // some connections have no deadlines
	n, err := p.r.Read(b)
	p.read += int64(n)
	p.took += time.Since(start)
	if err == io.EOF {
		_ = p.setDeadline(time.Time{})
	}
	return n, err
}

// allowed returns the time in which more than n bytes have to arrive.
func (p Pace) allowed(n int64) time.Duration {
	d := p.Grace + time.Duration(n)*time.Second/time.Duration(p.Rate)
	if p.Limit > 0 {
		d = min(d, p.Limit)
	}
	return d
}

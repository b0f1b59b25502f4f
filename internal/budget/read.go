package budget

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrFull is returned by ReadAll and ReadWhenRoom if the pool has no room.
var ErrFull = errors.New("budget: the pool has no room for more")

// firstRead is the size of the first buffer of ReadAll.
const firstRead = 4 << 10

// RequestBytes is about what an HTTP request takes in memory besides its header and its body.
const RequestBytes = 8 << 10

// ReadAll reads r to its end and charges c for the memory as the bytes arrive, so that a client that
// announces much and sends little takes little. announced is the expected number of bytes, -1 if it is
// not known. It returns ErrFull if the pool has no room, or the error of r; then nothing stays charged.
func ReadAll(c *Charge, r io.Reader, announced int64) ([]byte, error) {
	return readAll(c, r, announced, c.Take)
}

// ReadWhenRoom is ReadAll for a client that can be kept waiting: each time that the pool has no room, it
// waits for it, and returns ErrFull after the given time only.
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

// nextSize returns the size of the next buffer: twice that of the last one, but no more than what is
// announced and a byte to find the end with.
func nextSize(size int, announced int64) int {
	next := max(firstRead, 2*size)
	if rest := int(announced) + 1; announced >= 0 && size < rest {
		return min(next, rest)
	}
	return next
}

// drainFor is how long Drain reads.
const drainFor = 2 * time.Second

// Drain discards what a client is still sending of a body that is refused, for a moment: one that has
// not sent all of it often does not read the response.
func Drain(r io.Reader, setDeadline func(time.Time) error) {
	if setDeadline(time.Now().Add(drainFor)) == nil {
		_, _ = io.Copy(io.Discard, r) // the response is sent in any case
	}
}

// Pace is the least speed at which a client has to send. Time in which nothing is read does not count.
type Pace struct {
	// Grace is the time in which nothing has to arrive.
	Grace time.Duration
	// Rate is how many bytes per second have to arrive after that, on average.
	Rate int64
	// Limit is the time in which all has to arrive; 0 for none.
	Limit time.Duration
}

// Body is the pace of requests that are read into memory.
var Body = Pace{Grace: 10 * time.Second, Rate: 1 << 10, Limit: time.Minute}

// Reader returns a reader of r that sets a read deadline before each read, and none after the end of
// r. A client that falls behind gets the error of the deadline, os.ErrDeadlineExceeded.
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
	_ = p.setDeadline(start.Add(p.pace.allowed(p.read) - p.took)) // a connection without deadlines has none
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

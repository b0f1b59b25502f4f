package s3

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"steward/internal/budget"
	"steward/internal/object"
	"steward/internal/object/s3/sigv4"
)

// maxObject caps an object or part in one request, in bytes. S3 has the same limit.
const maxObject = 5 << 30

// A message is a body that is not an object, such as a list of keys to delete. We read it into memory to
// decode it.
const (
	// maxMessage caps a message, in bytes.
	maxMessage = 4 << 20
	// decodedSize is how much memory each byte in a hostile message takes once decoded.
	decodedSize = 20
	// messageGrant is the memory that a bucket always gets. It fits a message of 256 KiB.
	messageGrant = 5 << 20
)

// NewMessages returns a memory pool for Server.Messages.
func NewMessages(size int64) *budget.Pool { return budget.NewPool(size, messageGrant) }

// checkLength refuses messages that are too large or do not say how large they are.
func (r *request) checkLength() error {
	limit := min(maxMessage, r.server.Messages.Share()/decodedSize)
	switch {
	case r.operation.stream:
		return nil
	case r.ContentLength < 0:
		return fail("MissingContentLength")
	case r.ContentLength > limit:
		return fail("MaxMessageLengthExceeded")
	}
	return nil
}

// message reads a request's message and passes it to decode, while the caller's bucket is charged for the
// memory.
func (r *request) message(decode func(text []byte) error) error {
	charge := r.server.Messages.Charge(r.caller.OrgID, r.caller.Name)
	defer charge.Release()
	if !charge.Take(r.ContentLength * decodedSize) {
		return fail("SlowDown")
	}
	u, err := r.upload("")
	if err != nil {
		return err
	}
	text, err := io.ReadAll(u)
	if err != nil {
		return err
	}
	if _, err := u.sum(); err != nil {
		return err
	}
	return decode(text)
}

// bodyReader reads a request's body as it arrives. It cuts off clients that send nothing for as long as
// Limits.Stall, or too little on average. Every error is an answer: RequestTimeout or IncompleteBody.
type bodyReader struct {
	r      io.Reader
	limits Limits
	// setDeadline sets the connection's read deadline.
	setDeadline func(time.Time) error

	waited time.Duration // in the current stall window; only time spent in Read counts
	bytes  int64         // received in this window
	ended  bool          // reports whether r has returned io.EOF
	err    error
}

// open returns the body's reader.
func (r *request) open() *bodyReader {
	if r.body == nil {
		r.body = &bodyReader{r: r.Body, limits: r.server.Limits, setDeadline: http.NewResponseController(r.w).SetReadDeadline}
	}
	return r.body
}

func (b *bodyReader) Read(p []byte) (int, error) {
	switch {
	case b.ended:
		return 0, io.EOF
	case b.err != nil:
		return 0, b.err
	}
	began := time.Now()
	_ = b.setDeadline(began.Add(b.limits.Stall)) // a connection without deadlines keeps waiting
	n, err := b.r.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.ended = true
		_ = b.setDeadline(time.Time{})
		return n, io.EOF
	case errors.Is(err, os.ErrDeadlineExceeded), b.tooSlow(n, time.Since(began)):
		b.err = fail("RequestTimeout")
	case err != nil:
		b.err = fail("IncompleteBody")
	}
	return n, b.err
}

// tooSlow reports whether the client sent less than the minimum rate over the last window.
func (b *bodyReader) tooSlow(n int, waited time.Duration) bool {
	b.bytes += int64(n)
	b.waited += waited
	if b.waited < b.limits.Stall {
		return false
	}
	slow := float64(b.bytes) < b.waited.Seconds()*float64(b.limits.Rate)
	b.bytes = 0
	b.waited = 0
	return slow
}

// We read the rest of an unread body up to these limits, so that the client sees our answer and not a
// closed connection.
const (
	drainBytes = 16 << 20
	drainTime  = 10 * time.Second
)

// discardBody reads the rest of a body, or closes the connection after the response, because leftover bytes
// must not be taken for the next request.
func (r *request) discardBody() {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return
	}
	waits := r.body == nil && strings.EqualFold(r.Header.Get("Expect"), "100-continue") // it has not sent anything yet
	b := r.open()
	if !waits && r.ContentLength > 0 && b.err == nil {
		b.limits.Stall = min(b.limits.Stall, time.Second)
		until := time.Now().Add(drainTime)
		for left := int64(drainBytes); left > 0 && !b.ended && b.err == nil && time.Now().Before(until); left -= 1 << 20 {
			_, _ = io.CopyN(io.Discard, b, 1<<20)
		}
	}
	if !b.ended {
		r.w.Header().Set("Connection", "close")
		_ = b.setDeadline(time.Unix(1, 0)) // stop net/http from waiting for it, too
	}
}

// uploadBody is a request's decoded body. sum verifies it at the end.
type uploadBody struct {
	io.Reader

	size     int64 // -1 if unknown
	signed   *sigv4.Body
	checksum *checksummer
}

// upload returns a request's body. It computes the checksum that the client uses, otherwise the given one,
// which may be empty.
func (r *request) upload(algorithm string) (*uploadBody, error) {
	size, err := r.decodedSize()
	if err != nil {
		return nil, err
	}
	trailer, err := r.trailer()
	if err != nil {
		return nil, err
	}
	c, err := r.newChecksummer(algorithm, trailer)
	if err != nil {
		return nil, err
	}
	signed := r.signature.Body(r.open(), size, trailer)
	return &uploadBody{Reader: io.TeeReader(signed, c), size: size, signed: signed, checksum: c}, nil
}

// decodedSize returns the body's size without the aws-chunked encoding.
func (r *request) decodedSize() (int64, error) {
	size := r.ContentLength
	const name = "X-Amz-Decoded-Content-Length"
	if sent := r.Header.Get(name); sent != "" || r.signature.InChunks() {
		decoded, err := strconv.ParseInt(sent, 10, 64)
		if err != nil || decoded < 0 {
			return 0, fail("MissingContentLength")
		}
		if r.signature.InChunks() {
			size = decoded
		}
	}
	switch {
	case size < 0:
		return 0, fail("MissingContentLength")
	case size > maxObject:
		return 0, fail("EntityTooLarge")
	}
	return size, nil
}

// sum checks signatures and checksums after you have read the whole body, and returns the checksum, or nil
// if there is none. Do not commit the bytes unless it succeeds.
func (u *uploadBody) sum() (*object.Checksum, error) {
	n, err := io.Copy(io.Discard, io.LimitReader(u.Reader, 1))
	if err != nil {
		return nil, err
	}
	if n > 0 {
		return nil, fail("IncompleteBody")
	}
	return u.checksum.verify(u.signed.Trailer())
}

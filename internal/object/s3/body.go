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

// maxObject is the maximum size of an object or part in one request, as in S3.
const maxObject = 5 << 30

// A message is a body that is not an object, such as a list of keys to delete. It is read into memory
// and decoded.
const (
	// maxMessage is the maximum size of a message.
	maxMessage = 4 << 20
	// decodedSize is how many bytes a byte of a hostile message takes when it is decoded.
	decodedSize = 20
	// messageGrant is the memory that a bucket always gets: that for a message of 256 KiB.
	messageGrant = 5 << 20
)

// NewMessages returns a pool of memory for messages, for Server.Messages.
func NewMessages(size int64) *budget.Pool { return budget.NewPool(size, messageGrant) }

// checkLength refuses messages that are too large, or of which nobody knows how large.
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

// message reads the message of a request and calls a function with it, while its memory is charged to the
// bucket of the caller.
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

// bodyReader reads the body of a request as it comes. Whoever sends nothing for the time of a stall, or too
// little on an average, is cut off. Every error is an answer: RequestTimeout, or IncompleteBody.
type bodyReader struct {
	r      io.Reader
	limits Limits
	// setDeadline sets that of the next read from the connection.
	setDeadline func(time.Time) error

	waited time.Duration // in the current window of a stall; time in which nothing is read does not count
	bytes  int64         // that came in it
	ended  bool          // whether r has returned io.EOF
	err    error
}

// open returns the reader of a request's body.
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
	_ = b.setDeadline(began.Add(b.limits.Stall)) // a connection without deadlines has none
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

// tooSlow reports whether less than the minimum came in each second of the last stall.
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

// The rest of a body that was not read is read up to these limits, so that the client receives the answer
// instead of a closed connection.
const (
	drainBytes = 16 << 20
	drainTime  = 10 * time.Second
)

// discardBody reads the rest of a request's body, or has the connection closed after the response: what is
// left must not be taken for the next request.
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
		_ = b.setDeadline(time.Unix(1, 0)) // the server must not wait for it either
	}
}

// uploadBody is the decoded body of a request, which sum verifies at its end.
type uploadBody struct {
	io.Reader

	size     int64 // -1 if it is not known
	signed   *sigv4.Body
	checksum *checksummer
}

// upload returns the body of a request. Its checksum is of the algorithm that the client uses, or of the given one,
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

// decodedSize returns the size of a body without the encoding aws-chunked.
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

// sum returns the checksum, or nil if there is none, after the whole body has been read. Signatures and
// checksums are checked at its end, so what comes before must not be stored without it.
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

package s3

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/versity/versitygw/s3err"
)

// uploadReader reads the body of a request. Every error is an S3 error: that of a signature or
// checksum, RequestTimeout if the connection has cut off the client, or IncompleteBody.
type uploadReader struct {
	r     io.Reader
	conn  *conn
	ended bool // whether r has returned io.EOF
}

func (u *uploadReader) Read(p []byte) (int, error) {
	if u.ended {
		return 0, io.EOF
	}
	n, err := u.r.Read(p)
	u.ended = errors.Is(err, io.EOF)
	return n, u.apiError(err)
}

func (u *uploadReader) apiError(err error) error {
	var known s3err.S3Error
	switch {
	case err == nil, u.ended, errors.As(err, &known):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errRequestTimeout()
	}
	return s3err.GetAPIError(s3err.ErrIncompleteBody)
}

// finish returns nil if the body has ended: signatures and checksums are checked at its end, so
// what comes before must not be stored without it.
func (u *uploadReader) finish() error {
	var rest [1]byte
	for !u.ended {
		n, err := u.Read(rest[:])
		if n > 0 {
			return s3err.GetAPIError(s3err.ErrIncompleteBody)
		}
		if err != nil && !u.ended {
			return err
		}
	}
	return nil
}

// The rest of a body whose object could not be stored is read up to these limits, so that the
// client receives the answer instead of a closed connection.
const (
	drainBytes = 16 << 20
	drainTime  = 10 * time.Second
)

func (u *uploadReader) drain() {
	u.conn.receive(min(u.conn.limits.Stall, time.Second))
	until := time.Now().Add(drainTime)
	for left := int64(drainBytes); left > 0 && time.Now().Before(until); {
		n, err := io.CopyN(io.Discard, u, 1<<20)
		if err != nil {
			return
		}
		left -= n
	}
}

// signedTrailer is the value of X-Amz-Content-Sha256 of a body in signed chunks with a trailer.
const signedTrailer = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"

// maxTrailer is more than the size of a trailer.
const maxTrailer = 512

// trailerReader corrects the trailer at the end of a body in signed chunks. Some clients end the
// line of the checksum with \n\r\n, as the examples of AWS do, but the protocol expects \r\n.
type trailerReader struct {
	r       *bufio.Reader
	trailer *bytes.Reader // nil until the end of r is near
	err     error         // of r
}

func newTrailerReader(r io.Reader) *trailerReader {
	return &trailerReader{r: bufio.NewReaderSize(r, 32<<10)}
}

func (t *trailerReader) Read(p []byte) (int, error) {
	if t.trailer == nil {
		_, err := t.r.Peek(maxTrailer + 1)
		if err == nil {
			return t.r.Read(p[:min(len(p), t.r.Buffered()-maxTrailer)])
		}
		t.err = err
		rest := make([]byte, t.r.Buffered())
		if _, err := io.ReadFull(t.r, rest); err != nil {
			return 0, err
		}
		t.trailer = bytes.NewReader(correctTrailer(rest))
	}
	if t.trailer.Len() == 0 {
		return 0, t.err
	}
	return t.trailer.Read(p)
}

func correctTrailer(end []byte) []byte {
	const signature = "\r\nx-amz-trailer-signature:"
	at := bytes.LastIndex(end, []byte("\n"+signature))
	if at < 0 {
		return end
	}
	return slices.Delete(end, at, at+1)
}

package s3_test

import (
	"bufio"
	"context"
	"crypto/md5"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	"steward/internal/certificate/certtest"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/object"
	"steward/internal/object/s3"
	"steward/internal/waittest"
)

// closingReader tells when it is closed.
type closingReader struct {
	io.ReadCloser
	closed chan<- struct{}
}

func (r closingReader) Close() error {
	r.closed <- struct{}{}
	return r.ReadCloser.Close()
}

func (f *faultyBlobs) Open(ctx context.Context, id string, offset, length int64) (io.ReadCloser, error) {
	if f.openErr != nil {
		return nil, f.openErr
	}
	r, err := f.Store.Open(ctx, id, offset, length)
	if err != nil || f.closed == nil {
		return r, err
	}
	return closingReader{r, f.closed}, nil
}

// dial sends the head of a request. Its body is sent and its answer is read by the test.
func (f *fixture) dial(r *http.Request) *net.TCPConn {
	f.Helper()
	head, err := httputil.DumpRequestOut(r, false)
	check(f, err)
	c, err := net.Dial("tcp", f.address)
	check(f, err)
	conn, ok := c.(*net.TCPConn)
	if !ok {
		f.Fatalf("a connection of type %T", c)
	}
	f.Cleanup(func() { _ = conn.Close() })
	check(f, conn.SetReadBuffer(64<<10))
	_, err = conn.Write(head)
	check(f, err)
	return conn
}

// slowly calls a function many times in a second, for a time or until it returns an error.
func slowly(long time.Duration, do func() error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(long); time.Now().Before(end); <-tick.C {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// steadily runs what must not be cut off. On a busy machine the client itself may stall, so what was cut off
// is repeated with a server that waits for longer.
func steadily(t *testing.T, run func(stall time.Duration) error) {
	t.Helper()
	t.Parallel() // it takes its time
	stall := time.Second
	err := run(stall)
	for ; err != nil && stall < 30*time.Second; err = run(stall) {
		t.Logf("with a stall of %s: %v", stall, err)
		stall *= 2
	}
	check(t, err)
}

func (f *fixture) putLarge(b *object.Bucket, size int) {
	f.Helper()
	f.put(b, "large", strings.Repeat("0123456789abcdef", size/16))
}

// TestSteadyReaderIsNotCutOff reads so slowly that the server's socket accepts nothing for longer than
// a stall.
func TestSteadyReaderIsNotCutOff(t *testing.T) {
	const size = 16 << 20
	steadily(t, func(stall time.Duration) error {
		f := start(t, dbtest.Open(t, db.SQLite), &s3.Server{Limits: s3.Limits{Stall: stall}})
		b := f.newBucket("docs")
		f.putLarge(b, size)
		return readSteadily(f.dial(f.request(call{method: "GET", path: "/docs/large", by: b})), size, stall)
	})
}

// TestSteadyReaderIsNotCutOffOverTLS does the same over TLS, of which a write that was cut off cannot be
// continued.
func TestSteadyReaderIsNotCutOffOverTLS(t *testing.T) {
	const size = 16 << 20
	steadily(t, func(stall time.Duration) error {
		d := dbtest.Open(t, db.SQLite)
		plain := start(t, d, &s3.Server{})
		b := plain.newBucket("docs")
		plain.putLarge(b, size)
		ca := certtest.NewCA(t)
		config := &tls.Config{Certificates: []tls.Certificate{ca.Pair("127.0.0.1")}}
		f := serve(t, d, plain.blobs, &s3.Server{
			Limits: s3.Limits{Stall: stall},
			TLS:    func(l net.Listener) net.Listener { return tls.NewListener(l, config) },
		})
		head, err := httputil.DumpRequestOut(f.request(call{method: "GET", path: "/docs/large", by: b}), false)
		check(t, err)
		raw, err := net.Dial("tcp", f.address)
		check(t, err)
		check(t, raw.(*net.TCPConn).SetReadBuffer(64<<10))
		conn := tls.Client(raw, &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.1"})
		defer func() { _ = conn.Close() }()
		if _, err = conn.Write(head); err != nil {
			return err
		}
		return readSteadily(conn, size, stall)
	})
}

// readSteadily reads a response slowly for longer than a stall, and then to its end.
func readSteadily(conn io.Reader, size int64, stall time.Duration) error {
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 16<<10), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	read := int64(0)
	err = slowly(4*stall, func() error {
		n, err := io.CopyN(io.Discard, resp.Body, 12<<10)
		read += n
		return err
	})
	rest, ended := io.Copy(io.Discard, resp.Body)
	if err := errors.Join(err, ended); err != nil || read+rest != size {
		return fmt.Errorf("%d bytes slowly, then %d: %w", read, rest, err)
	}
	return nil
}

func TestReaderThatTakesNothingIsCutOff(t *testing.T) {
	const size = 64 << 20
	f := start(t, dbtest.Open(t, db.SQLite), &s3.Server{Limits: s3.Limits{Stall: 500 * time.Millisecond}})
	b := f.newBucket("docs")
	f.putLarge(b, size)
	closed := make(chan struct{}, 1)
	f.blobs.closed = closed
	conn := f.dial(f.request(call{method: "GET", path: "/docs/large", by: b}))
	waittest.Receive(t, "the end of the response", closed)
	if n, _ := io.Copy(io.Discard, conn); n >= size {
		t.Errorf("%d bytes came", n)
	}
}

// TestSteadySenderIsNotCutOff sends bodies for longer than a stall.
func TestSteadySenderIsNotCutOff(t *testing.T) {
	deletion := "<Delete><Object><Key>b</Key></Object>" + strings.Repeat(" ", 100_000) + "</Delete>"
	sum := md5.Sum([]byte(deletion))
	for what, test := range map[string]call{
		"an object": {method: "PUT", path: "/docs/a", body: strings.Repeat("x", 100_000)},
		"a message": {method: "POST", path: "/docs?delete=", body: deletion, header: map[string]string{"Content-Md5": base64Of(sum[:])}},
	} {
		t.Run(what, func(t *testing.T) {
			steadily(t, func(stall time.Duration) error {
				f := start(t, dbtest.Open(t, db.SQLite), &s3.Server{Limits: s3.Limits{Stall: stall}})
				test.by = f.newBucket("docs")
				f.put(test.by, "b", "x")
				conn := f.dial(f.request(test))
				body := strings.NewReader(test.body)
				ticks := int64(2 * stall / (50 * time.Millisecond))
				err := slowly(2*stall, func() error {
					_, err := io.CopyN(conn, body, int64(len(test.body))/(2*ticks))
					return err
				})
				if _, rest := io.Copy(conn, body); err != nil || rest != nil {
					return errors.Join(err, rest)
				}
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					return fmt.Errorf("got %s %s", resp.Status, readAll(t, resp.Body))
				}
				return nil
			})
		})
	}
}

// TestSenderBelowTheMinimumRateIsCutOff sends a byte now and then.
func TestSenderBelowTheMinimumRateIsCutOff(t *testing.T) {
	f := start(t, dbtest.Open(t, db.SQLite), &s3.Server{Limits: s3.Limits{Stall: time.Second}})
	b := f.newBucket("docs")
	r := f.request(call{method: "PUT", path: "/docs/a", by: b, payload: "UNSIGNED-PAYLOAD"})
	r.Body = io.NopCloser(strings.NewReader(""))
	r.ContentLength = 1 << 20
	conn := f.dial(r)
	_, err := io.WriteString(conn, strings.Repeat("x", 100_000))
	check(t, err)
	answered := make(chan *http.Response, 1)
	go func() {
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil {
			_ = resp.Body.Close()
		}
		answered <- resp
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case resp := <-answered:
			if resp == nil || resp.StatusCode != http.StatusBadRequest {
				t.Errorf("got %+v", resp)
			}
			return
		case <-tick.C:
			_, _ = conn.Write([]byte("x"))
		}
	}
}

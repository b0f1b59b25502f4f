//go:build bench

package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/e2e/process"
)

const (
	// span is how long a load lasts.
	span = 2 * time.Second
	// clients is the number of clients that write at the same time.
	clients = 64
)

// request returns the bytes of an HTTP/1.1 request.
func request(method, path, key string, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: steward\r\n", method, path)
	if key != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", key)
	}
	if body != nil {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

// source returns the bytes of the ith request of a connection, or nil at the end of the load.
type source func(conn, i int) []byte

// always returns the same request again and again.
func always(b []byte) source { return func(int, int) []byte { return b } }

// first returns a source that ends after n requests over all connections.
func (s source) first(n, conns int) source {
	return func(conn, i int) []byte {
		if i*conns+conn >= n {
			return nil
		}
		return s(conn, i)
	}
}

// result is what a load measured.
type result struct {
	rate  float64         // responses per second
	cpu   float64         // CPU milliseconds of the server per response
	times []time.Duration // response times, sorted
}

// quantile returns the time within which that share of the requests got their responses.
func (r result) quantile(q float64) time.Duration {
	if len(r.times) == 0 {
		return 0
	}
	return r.times[min(len(r.times)-1, int(q*float64(len(r.times))))]
}

// protocol is how requests are sent over a connection.
type protocol struct {
	open func(conn net.Conn, in *bufio.Reader) error // nil if there is nothing to do
	read func(in *bufio.Reader) error                // reads a response
}

var plainHTTP = protocol{read: readResponse}

// load sends requests over some connections for a time. A response other than 2xx fails the test.
func load(t *testing.T, s server, conns int, duration time.Duration, next source) result {
	t.Helper()
	return plainHTTP.load(t, s, conns, duration, next)
}

func (p protocol) load(t *testing.T, s server, conns int, duration time.Duration, next source) result {
	t.Helper()
	return measure(t, s, conns, func(c int, start time.Time) ([]time.Duration, error) {
		return p.client(s.address, start.Add(duration), func(i int) []byte { return next(c, i) })
	})
}

// measure runs clients at the same time and combines the times that they return.
func measure(t *testing.T, s server, n int, run func(c int, start time.Time) ([]time.Duration, error)) result {
	t.Helper()
	all := make([][]time.Duration, n)
	var running sync.WaitGroup
	before, start := process.CPUTime(t, s.pid), time.Now()
	for c := range n {
		running.Go(func() {
			times, err := run(c, start)
			if err != nil {
				t.Errorf("client %d: %v", c, err)
			}
			all[c] = times
		})
	}
	running.Wait()
	took := time.Since(start)
	used := process.CPUTime(t, s.pid) - before
	times := slices.Concat(all...)
	slices.Sort(times)
	count := float64(max(1, len(times)))
	return result{rate: count / took.Seconds(), cpu: used.Seconds() * 1000 / count, times: times}
}

// client sends one request after the other over one connection until a time, or until next returns nil.
func (p protocol) client(address string, until time.Time, next func(i int) []byte) ([]time.Duration, error) {
	conn, in, err := p.dial(address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var times []time.Duration
	for i := 0; ; i++ {
		start := time.Now()
		if start.After(until) {
			return times, nil
		}
		b := next(i)
		if b == nil {
			return times, nil
		}
		if _, err := conn.Write(b); err != nil {
			return times, err
		}
		if err := p.read(in); err != nil {
			return times, err
		}
		times = append(times, time.Since(start))
	}
}

func (p protocol) dial(address string) (net.Conn, *bufio.Reader, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, nil, err
	}
	in := bufio.NewReaderSize(conn, 16<<10)
	if p.open == nil {
		return conn, in, nil
	}
	if err := p.open(conn, in); err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, in, nil
}

// readResponse reads a response that has a Content-Length, as all of Steward's have.
func readResponse(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	status := string(line)
	length := 0
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if len(name) == 14 && strings.EqualFold(string(name), "Content-Length") {
			length, err = strconv.Atoi(string(bytes.TrimSpace(value)))
			if err != nil {
				return err
			}
		}
	}
	if len(status) > 9 && status[9] == '2' {
		_, err := in.Discard(length)
		return err
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(in, body); err != nil {
		return err
	}
	return fmt.Errorf("%s%s", status, body)
}

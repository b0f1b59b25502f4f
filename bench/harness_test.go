//go:build bench

// Package bench measures Steward against fixed references of the same run: an empty net/http handler, a raw fsync loop, pgbench. Figures
// are ratios, since machines differ and are never idle. `make bench` runs everything; BENCHMARKS.md tells what was seen.
//
// The load comes from this process over raw connections, so that it costs little; servers are processes of their own, so that their CPU
// time can be read.
package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"steward/e2e/process"
)

func TestMain(m *testing.M) {
	if os.Getenv("BENCH_REFERENCE") != "" {
		serveReference()
		return
	}
	os.Exit(process.Main(m))
}

// serveReference is the fixed point of every HTTP figure: net/http with a handler that reads the body and answers a few bytes of JSON.
func serveReference() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	body := []byte(`[{"region":"local","description":"This machine"}]` + "\n")
	http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Write(body)
	}))
}

// server is a process under load.
type server struct {
	address string // host:port
	pid     int
}

// startReference runs serveReference in a process of its own.
func startReference(t *testing.T) server {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "BENCH_REFERENCE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return server{address: strings.TrimSpace(line), pid: cmd.Process.Pid}
}

// startSteward runs the real binary; its log goes nowhere, as a service's would go to a collector.
func startSteward(t *testing.T, database string, args ...string) (*process.Steward, server) {
	s := process.New(t, database, args...)
	s.Start()
	return s, server{address: strings.TrimPrefix(s.URL, "http://"), pid: s.Cmd.Process.Pid}
}

// request gives the bytes of an HTTP/1.1 request.
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

// result is what a load saw.
type result struct {
	rate  float64 // answers per second
	cpu   float64 // the server's CPU milliseconds per answer
	times []time.Duration
}

// quantile gives the time within which that share of the requests was answered.
func (r result) quantile(q float64) time.Duration {
	if len(r.times) == 0 {
		return 0
	}
	return r.times[min(len(r.times)-1, int(q*float64(len(r.times))))]
}

// load sends requests over n connections for a while. next gives the bytes of each request; an answer other than 2xx fails the run.
func load(t *testing.T, s server, n int, lasts time.Duration, next func(conn, i int) []byte) result {
	t.Helper()
	var answered atomic.Int64
	var mu sync.Mutex
	var all []time.Duration
	var clients sync.WaitGroup
	before, start := cpuTime(t, s.pid), time.Now()
	for c := range n {
		clients.Go(func() {
			times, err := client(s.address, start.Add(lasts), func(i int) []byte { return next(c, i) })
			if err != nil {
				t.Errorf("client %d: %v", c, err)
			}
			answered.Add(int64(len(times)))
			mu.Lock()
			all = append(all, times...)
			mu.Unlock()
		})
	}
	clients.Wait()
	took := time.Since(start)
	used := cpuTime(t, s.pid) - before
	slices.Sort(all)
	count := float64(max(1, answered.Load()))
	return result{rate: count / took.Seconds(), cpu: used.Seconds() * 1000 / count, times: all}
}

// client sends one request after the other on one connection until the time is up.
func client(address string, until time.Time, next func(i int) []byte) ([]time.Duration, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 16<<10)
	var times []time.Duration
	for i := 0; ; i++ {
		start := time.Now()
		if start.After(until) {
			return times, nil
		}
		if _, err := conn.Write(next(i)); err != nil {
			return times, err
		}
		if err := readAnswer(in); err != nil {
			return times, err
		}
		times = append(times, time.Since(start))
	}
}

// readAnswer reads an answer with a Content-Length, which all of ours have.
func readAnswer(in *bufio.Reader) error {
	status, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	good := len(status) > 9 && status[9] == '2'
	line := string(status)
	length := 0
	for {
		h, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(h) <= 2 {
			break
		}
		if name, value, _ := bytes.Cut(h, []byte(":")); len(name) == 14 && strings.EqualFold(string(name), "Content-Length") {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(value)))
		}
	}
	if good {
		_, err = in.Discard(length)
		return err
	}
	rest := make([]byte, length)
	io.ReadFull(in, rest)
	return fmt.Errorf("%s%s", line, rest)
}

// cpuTime gives the CPU time that a process has used.
func cpuTime(t *testing.T, pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+2:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond // the kernel counts in hundredths
}

// versus measures ours and the reference in turns and gives the median ratio of the rates, so that a passing disturbance hits both.
func versus(rounds int, reference, ours func() result) (ratio float64, ref, our result) {
	var ratios []float64
	for range rounds {
		ref, our = reference(), ours()
		ratios = append(ratios, our.rate/ref.rate)
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2], ref, our
}

// report prints a figure beside its goal. A goal that is missed is said so, and fails nothing: it is a measurement.
func report(t *testing.T, what string, got, goal float64, atLeast bool, format string, args ...any) {
	verdict, sign := "met", "≥"
	if !atLeast {
		sign = "≤"
	}
	if atLeast && got < goal || !atLeast && got > goal {
		verdict = "MISSED"
	}
	fmt.Printf("%-58s %8.3f  (goal %s %g: %s)  %s\n", what, got, sign, goal, verdict, fmt.Sprintf(format, args...))
}

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
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/e2e/process"
	"steward/internal/db"
	"steward/internal/db/dbtest"
)

func TestMain(m *testing.M) {
	if role := os.Getenv("BENCH_ROLE"); role != "" {
		serve(roles[role]())
		return
	}
	os.Exit(process.Main(m))
}

// roles are the servers that Steward is measured against, or sends to. Each runs in a process of its own.
var roles = map[string]func() http.Handler{"reference": newReference, "sink": newSink, "forwarder": newForwarder}

func serve(h http.Handler) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	http.Serve(listener, h)
}

// newReference is the fixed point of every HTTP figure: a handler that reads the body and answers a few bytes of JSON.
func newReference() http.Handler {
	body := []byte(`[{"region":"local","description":"This machine"}]` + "\n")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Write(body)
	})
}

// client sends the requests that are not measured. Its timeout ends a run that hangs.
var client = &http.Client{Timeout: 5 * time.Minute}

// server is a process under load.
type server struct {
	address string // host:port
	pid     int
}

func startReference(t *testing.T) server { return startRole(t, "reference") }

// startRole runs one of the roles; it ends with the test, or with the test's process.
func startRole(t *testing.T, role string, env ...string) server {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "BENCH_ROLE="+role), env...)
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

// onEach measures one database after the other, each by name: ONLY=TestX/sqlite picks one.
func onEach(t *testing.T, measure func(t *testing.T, database string, dialect db.Dialect)) {
	for i, database := range process.Databases {
		t.Run(database, func(t *testing.T) { measure(t, database, dbtest.Dialects[i]) })
	}
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

// protocol is how a connection is spoken to: what opens it, if anything, and how an answer is read.
type protocol struct {
	open   func(conn net.Conn, in *bufio.Reader) error
	answer func(in *bufio.Reader) error
}

// load sends requests over n connections for a while. next gives the bytes of each request; an answer other than 2xx fails the run.
func load(t *testing.T, s server, n int, lasts time.Duration, next func(conn, i int) []byte) result {
	t.Helper()
	return loadBy(t, protocol{answer: readAnswer}, s, n, lasts, next)
}

// loadBy is load with another protocol.
func loadBy(t *testing.T, p protocol, s server, n int, lasts time.Duration, next func(conn, i int) []byte) result {
	t.Helper()
	var answered atomic.Int64
	var mu sync.Mutex
	var all []time.Duration
	var clients sync.WaitGroup
	before, start := process.CPUTime(t, s.pid), time.Now()
	for c := range n {
		clients.Go(func() {
			times, err := p.client(s.address, start.Add(lasts), func(i int) []byte { return next(c, i) })
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
	used := process.CPUTime(t, s.pid) - before
	slices.Sort(all)
	count := float64(max(1, answered.Load()))
	return result{rate: count / took.Seconds(), cpu: used.Seconds() * 1000 / count, times: all}
}

// client sends one request after the other on one connection until the time is up.
func (p protocol) client(address string, until time.Time, next func(i int) []byte) ([]time.Duration, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 16<<10)
	if p.open != nil {
		if err := p.open(conn, in); err != nil {
			return nil, err
		}
	}
	var times []time.Duration
	for i := 0; ; i++ {
		start := time.Now()
		if start.After(until) {
			return times, nil
		}
		if _, err := conn.Write(next(i)); err != nil {
			return times, err
		}
		if err := p.answer(in); err != nil {
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

// rowCount is how many rows the lists are measured over: a million, or BENCH_ROWS.
func rowCount(t *testing.T) int {
	text := os.Getenv("BENCH_ROWS")
	if text == "" {
		return 1_000_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("BENCH_ROWS: %v", err)
	}
	return n
}

// fill writes rows into the database while Steward is down: do is called with one range of numbers after the other, in a transaction
// each. PostgreSQL then gets the statistics that it would have by the time that so many rows have come.
func (in *installation) fill(rows int, do func(tx *db.Tx, from, to int) error) {
	in.t.Helper()
	const step = 100_000
	start := time.Now()
	in.restart(func() {
		d, err := db.Open(in.t.Context(), db.Options{URL: in.Database, Path: filepath.Join(in.Dir, "steward.db")})
		in.Must(err)
		for from := 0; from < rows; from += step {
			in.Must(d.Write(in.t.Context(), func(tx *db.Tx) error { return do(tx, from, min(from+step, rows)) }))
		}
		in.Must(d.Close())
		in.analyze()
	})
	fmt.Printf("%s: %d rows were loaded in %.0f s\n", in.engine(), rows, time.Since(start).Seconds())
}

func (in *installation) engine() string {
	if in.Database != "" {
		return "postgres"
	}
	return "sqlite"
}

// analyze does what autovacuum would have done on PostgreSQL by the time that so many rows have come.
func (in *installation) analyze() {
	if in.Database == "" {
		return
	}
	conn, err := pgx.Connect(in.t.Context(), in.Database)
	in.Must(err)
	defer conn.Close(in.t.Context())
	_, err = conn.Exec(in.t.Context(), "VACUUM ANALYZE")
	in.Must(err)
}

// list is a page to ask for, and how many rows it must have (-1: it varies). {n} in its query stands for one number after the other,
// below `of`.
type list struct {
	name, query string
	of, rows    int
}

// lists measures pages over two connections: more would measure how long requests wait for each other. The empty handler's p99 of the same
// moment tells what the machine adds by itself.
func (in *installation) lists(ref server, path string, all []list) {
	in.t.Helper()
	const conns = 2
	for _, l := range all {
		at := func(i int) string {
			return path + "?" + strings.ReplaceAll(l.query, "{n}", strconv.Itoa(i*7919%max(1, l.of)))
		}
		var page []json.RawMessage
		in.call("GET", at(1), nil, &page)
		if l.rows >= 0 && len(page) != l.rows {
			in.t.Errorf("%s: %d rows, not %d", at(1), len(page), l.rows)
		}
		empty := load(in.t, ref, conns, 200*time.Millisecond, always(request("GET", "/", "", nil)))
		got := load(in.t, in.server, conns, 800*time.Millisecond, func(conn, i int) []byte {
			return request("GET", at(conn+conns*i), in.Key, nil)
		})
		report(in.t, fmt.Sprintf("%s: %s: %s, p99 ms", in.engine(), path, l.name), millis(got.quantile(0.99)), 10, false,
			"p50 %s, %.0f/s, CPU %.3f ms (empty: p99 %s)", ms(got.quantile(0.5)), got.rate, got.cpu, ms(empty.quantile(0.99)))
	}
}

// middle gives the cursor of the place that so many rows are before.
func (in *installation) middle(path string, offset int) string {
	req, err := http.NewRequest("GET", fmt.Sprintf("%s%s?limit=1&offset=%d", in.URL, path, offset), nil)
	in.Must(err)
	req.Header.Set("Authorization", "Bearer "+in.Key)
	res, err := client.Do(req)
	in.Must(err)
	defer res.Body.Close()
	link := nextLink.FindStringSubmatch(res.Header.Get("Link"))
	if link == nil {
		in.t.Fatalf("%s: no next link in %d %v", path, res.StatusCode, res.Header)
	}
	next, err := url.Parse(link[1])
	in.Must(err)
	return next.Query().Get("cursor")
}

// durable measures acknowledged durable writes of 64 clients beside three references, in turns: the bare insert of the foundation; the
// same statements on bare tables; the empty handler with a body of the same size. The first two go through DB.Write in this process,
// without network, JSON, authentication and further indexes; so a bare insert and an empty request, one after the other, are what no
// server can do better than on these cores.
func durable(t *testing.T, what string, ref server, d *db.DB, same func(tx *db.Tx, writer, i int) error, ours func() result) {
	t.Helper()
	const lasts = time.Second
	insert, post := bareInsert(t, d), always(request("POST", "/", "", newEvent()))
	var toBare, toSame, toBoth []float64
	var bare, like, both float64
	var got result
	for range 3 {
		bare, like = commitRate(t, d, clients, lasts, insert), commitRate(t, d, clients, lasts, same)
		both = 1 / (1/bare + 1/load(t, ref, clients, lasts, post).rate)
		got = ours()
		toBare, toSame, toBoth = append(toBare, got.rate/bare), append(toSame, got.rate/like), append(toBoth, got.rate/both)
	}
	report(t, fmt.Sprintf("%s: %s, %d clients", d.Dialect(), what, clients), median(toBare), 0.5, true,
		"%.0f/s of %.0f/s; %.2f of the same statements alone (%.0f/s), %.2f of insert and empty request (%.0f/s); "+
			"p50 %s, p99 %s, CPU %.3f ms",
		got.rate, bare, median(toSame), like, median(toBoth), both, ms(got.quantile(0.5)), ms(got.quantile(0.99)), got.cpu)
}

// clients is how many write at once.
const clients = 64

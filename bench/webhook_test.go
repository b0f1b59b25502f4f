//go:build bench

package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"steward/e2e/process"
	"steward/internal/db"
	"steward/internal/waittest"
)

// crowds are the numbers of clients that webhooks are measured with.
var crowds = []int{64, 256}

// goals are what a database must reach.
type goals struct{ ingest, deliver float64 }

var webhookGoals = map[string]goals{"sqlite": {0.4, 0.5}, "postgres": {0.3, 0.35}}

// installation is a running Steward with what the loads need to know of it.
type installation struct {
	*process.Steward
	server
	t     *testing.T
	orgID string
}

func install(t *testing.T, database string) *installation {
	p, s := startSteward(t, database, profiling()...)
	in := &installation{Steward: p, server: s, t: t}
	var orgs []struct{ ID string }
	in.call("GET", "/cli/organization", nil, &orgs)
	in.orgID = orgs[0].ID
	return in
}

// profiling lets BENCH_PPROF=127.0.0.1:9464 name an address to take profiles from while a load runs.
func profiling() []string {
	if address := os.Getenv("BENCH_PPROF"); address != "" {
		return []string{"--metrics-listen", address}
	}
	return nil
}

// restart lets a function work on the database while nobody else does.
func (in *installation) restart(meanwhile func()) {
	in.t.Helper()
	in.Stop()
	meanwhile()
	in.Start()
	u, err := url.Parse(in.URL)
	in.Must(err)
	in.server = server{address: u.Host, pid: in.Cmd.Process.Pid}
}

// pause stops the process where it is, and waits until what it has begun elsewhere is done; resume lets it go on.
func (in *installation) pause() {
	in.Must(in.Cmd.Process.Signal(syscall.SIGSTOP))
	time.Sleep(50 * time.Millisecond)
}

func (in *installation) resume() { in.Must(in.Cmd.Process.Signal(syscall.SIGCONT)) }

func (in *installation) call(method, path string, body, into any) {
	in.t.Helper()
	text, err := json.Marshal(body)
	in.Must(err)
	req, err := http.NewRequest(method, in.URL+path, bytes.NewReader(text))
	in.Must(err)
	req.Header.Set("Authorization", "Bearer "+in.Key)
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	in.Must(err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	in.Must(err)
	if res.StatusCode >= 300 {
		in.t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, answer)
	}
	in.Must(json.Unmarshal(answer, into))
}

// hook is a webhook, with the path that takes its events.
type hook struct{ id, path string }

func (in *installation) hook() hook {
	in.t.Helper()
	var made struct{ ID, URL string }
	in.call("POST", "/webhook/create", map[string]any{"name": "bench"}, &made)
	u, err := url.Parse(made.URL)
	in.Must(err)
	return hook{made.ID, u.Path}
}

// destination adds one with the default settings, and gives its id.
func (in *installation) destination(h hook, address string) string {
	in.t.Helper()
	var made struct{ ID string }
	config := map[string]any{"url": "http://" + address}
	in.call("POST", "/webhook/destination-create/"+h.id, map[string]any{"type": "url", "config": config}, &made)
	return made.ID
}

// TestWebhookIngest measures accepted events without a destination, against the handler that reads the same body and does nothing.
func TestWebhookIngest(t *testing.T) {
	ref := startReference(t)
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in, f := install(t, database), &feed{}
		h := in.hook()
		for _, clients := range crowds {
			ratio, empty, got := versus(3,
				func() result { return load(t, ref, clients, span, f.events("/", clients)) },
				func() result { return load(t, in.server, clients, span, f.events(h.path, clients)) })
			report(t, fmt.Sprintf("%s: ingest, %d clients", database, clients), ratio, webhookGoals[database].ingest, true,
				"%.0f/s of %.0f/s, p99 %s, CPU %.3f ms (empty %.3f)", got.rate, empty.rate, ms(got.quantile(0.99)), got.cpu, empty.cpu)
		}
	})
}

// TestWebhookDeliver measures delivered events, until everything that was sent is there, against a forwarder that stores nothing.
func TestWebhookDeliver(t *testing.T) {
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in, to, f := install(t, database), startSink(t), &feed{}
		bare := startForwarder(t, to)
		h := in.hook()
		in.destination(h, to.address)
		for _, clients := range crowds {
			var used []float64
			ratio, forwarded, got := versus(3,
				func() result { return deliver(t, bare, to, clients, f.events("/", clients)) },
				func() result {
					r := deliver(t, in.server, to, clients, f.events(h.path, clients))
					used = append(used, r.cpu)
					return r
				})
			name := fmt.Sprintf("%s: ingest and deliver, %d clients", database, clients)
			report(t, name, ratio, webhookGoals[database].deliver, true, "%.0f/s of %.0f/s, end to end p99 %s",
				got.rate, forwarded.rate, ms(got.quantile(0.99)))
			cpu := median(used)
			if database == "sqlite" {
				report(t, name+": CPU ms/event", cpu, 0.2, false, "bare forwarder %.3f", forwarded.cpu)
			} else {
				fmt.Printf("%-58s %8.3f  (without the database server's)\n", name+": CPU ms/event", cpu)
			}
		}
	})
}

// deliver is a load that lasts until everything has arrived; its times are end to end.
func deliver(t *testing.T, s server, to *sink, clients int, next func(conn, i int) []byte) result {
	t.Helper()
	before, start := process.CPUTime(t, s.pid), time.Now()
	accepted := load(t, s, clients, span, next)
	if t.Failed() {
		t.FailNow() // what was not accepted will not arrive
	}
	got := to.expect(len(accepted.times))
	count := float64(got.Count)
	used := process.CPUTime(t, s.pid) - before
	return result{rate: count / got.Last.Sub(start).Seconds(), cpu: used.Seconds() * 1000 / count, times: got.Times}
}

// TestWebhookLatency measures the way of an event at a load that is far from the limits.
func TestWebhookLatency(t *testing.T) {
	const perSecond, conns, lasts = 50, 10, 3 * time.Second
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in, to, f := install(t, database), startSink(t), &feed{}
		h := in.hook()
		in.destination(h, to.address)
		to.expect(len(load(t, in.server, 1, span/4, f.events(h.path, 1)).times)) // connections and caches
		var p50s, p99s, bounds []float64
		for range 5 {
			disk := fsyncTimes(t, time.Second).quantile(0.99)
			sent := load(t, in.server, conns, lasts, f.paced(h.path, conns, perSecond))
			got := to.expect(len(sent.times))
			p50s, p99s = append(p50s, millis(got.quantile(0.5))), append(p99s, millis(got.quantile(0.99)))
			bounds = append(bounds, 20+3*millis(disk))
		}
		bound := median(bounds)
		name := fmt.Sprintf("%s: end to end at %d events/s", database, perSecond)
		report(t, name+": p50 ms", median(p50s), 5, false, "of 5 runs: %.1f", p50s)
		report(t, name+": p99 ms", median(p99s), round(bound), false, "of 5 runs: %.1f, raw fsync p99 %.1f ms", p99s, (bound-20)/3)
	})
}

// fsyncTimes is what the disk gives at this moment: one writer that appends and syncs.
func fsyncTimes(t *testing.T, lasts time.Duration) result {
	f, err := os.Create(filepath.Join(t.TempDir(), "raw"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r result
	for start := time.Now(); time.Since(start) < lasts; {
		one := time.Now()
		if _, err := f.Write(newEvent()); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		r.times = append(r.times, time.Since(one))
	}
	slices.Sort(r.times)
	return r
}

// TestWebhookBacklog measures how fast deliveries that wait in the database leave it, against posting the same requests to the sink
// directly. They take turns of a second: Steward is stopped while the client posts, so that both see the same hours of the machine, and
// over new connections each time, since how well they share two cores is a matter of luck.
func TestWebhookBacklog(t *testing.T) {
	const backlog, conns = 200_000, 10 // as many connections as a destination has by default
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in, to, f := install(t, database), startSink(t), &feed{}
		h := in.hook()
		s := stock{in: in, hook: h, destinationID: in.destination(h, to.address), rows: backlog, pending: true, feed: f}
		in.restart(s.load)
		var drained, posted turns
		waittest.Until(t, "the end of the backlog", func() (int, bool) {
			to.await(backlog - drained.count)
			in.pause()
			drained.add(to.take())
			direct := load(t, to.server, conns, time.Second, f.deliveries(conns))
			posted.add(to.expect(len(direct.times)))
			in.resume()
			return drained.count, drained.count >= backlog
		})
		report(t, fmt.Sprintf("%s: drain a backlog of %d", database, backlog), drained.rate()/posted.rate(), 0.5, true,
			"%.0f/s of %.0f/s in %d turns, CPU %.3f ms, %d twice", drained.rate(), posted.rate(), drained.turns,
			process.CPUTime(t, in.server.pid).Seconds()*1000/backlog, drained.repeated)
	})
}

// turns sums up what arrived while it was somebody's turn.
type turns struct {
	turns, count int
	repeated     int64
	took         time.Duration
}

func (u *turns) add(got arrivals) {
	if got.Count == 0 {
		return
	}
	u.turns++
	u.count += int(got.Count)
	u.repeated += got.Repeated
	u.took += got.Last.Sub(got.First)
}

func (u *turns) rate() float64 { return float64(u.count-u.turns) / u.took.Seconds() }

// TestWebhookIsolation measures a healthy destination alone, and then beside one that hangs and one that answers 500.
func TestWebhookIsolation(t *testing.T) {
	const perSecond, conns, lasts = 200, 20, 2 * time.Second
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in, to, f := install(t, database), startSink(t), &feed{}
		h := in.hook()
		in.destination(h, to.address)
		p99 := func() (all []float64) {
			for range 4 {
				sent := load(t, in.server, conns, lasts, f.paced(h.path, conns, perSecond))
				all = append(all, millis(to.expect(len(sent.times)).quantile(0.99)))
			}
			return all[1:] // the first warms up
		}
		alone := p99()
		in.destination(h, to.address+"/hang")
		in.destination(h, to.address+"/fail")
		beside := p99()
		bound := max(2*median(alone), median(alone)+20)
		report(t, fmt.Sprintf("%s: p99 ms beside a hanging and a failing destination", database), median(beside), round(bound), false,
			"%d events/s, alone %.1f, beside %.1f", perSecond, alone, beside)
	})
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", millis(d)) }

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func round(v float64) float64 { return float64(int64(v*10+0.5)) / 10 }

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

//go:build bench

package bench

import (
	"fmt"
	"testing"
	"time"

	"steward/e2e/process"
	"steward/internal/db"
	"steward/internal/waittest"
)

// clientCounts are the numbers of clients that send events.
var clientCounts = []int{64, 256}

// webhookGoals are the goals for each database.
var webhookGoals = map[string]struct{ ingest, deliver goal }{
	"sqlite":   {atLeast(0.4), atLeast(0.5)},
	"postgres": {atLeast(0.3), atLeast(0.35)},
}

// TestWebhookIngest compares events without a destination with the reference handler.
func TestWebhookIngest(t *testing.T) {
	ref := startReference(t)
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in, f := install(t, database), &feed{}
		h := in.hook()
		for _, clients := range clientCounts {
			ratio, empty, got := compare(3,
				func() result { return load(t, ref, clients, span, f.events("/", clients)) },
				func() result { return load(t, in.server, clients, span, f.events(h.path, clients)) })
			report(fmt.Sprintf("%s: ingest, %d clients", database, clients), ratio, webhookGoals[database].ingest,
				"%.0f/s of %.0f/s, p99 %s, CPU %.3f ms (empty %.3f)",
				got.rate, empty.rate, ms(got.quantile(0.99)), got.cpu, empty.cpu)
		}
	})
}

// TestWebhookDeliver compares delivered events, until all have arrived, with a forwarder that stores
// nothing.
func TestWebhookDeliver(t *testing.T) {
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in, to, f := install(t, database), startSink(t), &feed{}
		bare := startForwarder(t, to)
		h := in.hook()
		in.destination(h, to.address)
		for _, clients := range clientCounts {
			var used []float64
			ratio, forwarded, got := compare(3,
				func() result { return deliver(t, bare, to, clients, f.events("/", clients)) },
				func() result {
					r := deliver(t, in.server, to, clients, f.events(h.path, clients))
					used = append(used, r.cpu)
					return r
				})
			name := fmt.Sprintf("%s: ingest and deliver, %d clients", database, clients)
			report(name, ratio, webhookGoals[database].deliver, "%.0f/s of %.0f/s, end to end p99 %s",
				got.rate, forwarded.rate, ms(got.quantile(0.99)))
			cpu := median(used)
			if database == "sqlite" {
				report(name+": CPU ms/event", cpu, atMost(0.2), "bare forwarder %.3f", forwarded.cpu)
			} else {
				fmt.Printf("%-58s %8.3f  (without the database server)\n", name+": CPU ms/event", cpu)
			}
		}
	})
}

// deliver sends events and waits until all have arrived. Its times are end to end.
func deliver(t *testing.T, s server, to *sink, clients int, next source) result {
	t.Helper()
	before, start := process.CPUTime(t, s.pid), time.Now()
	accepted := load(t, s, clients, span, next)
	if t.Failed() {
		t.FailNow() // what was not accepted does not arrive
	}
	got := to.expect(len(accepted.times))
	count := float64(got.Count)
	used := process.CPUTime(t, s.pid) - before
	return result{rate: count / got.Last.Sub(start).Seconds(), cpu: used.Seconds() * 1000 / count, times: got.Times}
}

// TestWebhookLatency measures the time from sending an event to its arrival, at a low load.
func TestWebhookLatency(t *testing.T) {
	const perSecond, conns, duration = 50, 10, 3 * time.Second
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in, to, f := install(t, database), startSink(t), &feed{}
		h := in.hook()
		in.destination(h, to.address)
		to.expect(len(load(t, in.server, 1, span/4, f.events(h.path, 1)).times)) // warms up
		var p50s, p99s, bounds []float64
		for range 5 {
			disk := fsyncTimes(t, time.Second, eventSize).quantile(0.99)
			sent := load(t, in.server, conns, duration, f.paced(h.path, conns, perSecond))
			got := to.expect(len(sent.times))
			p50s = append(p50s, millis(got.quantile(0.5)))
			p99s = append(p99s, millis(got.quantile(0.99)))
			bounds = append(bounds, 20+3*millis(disk))
		}
		bound := median(bounds)
		name := fmt.Sprintf("%s: end to end at %d events/s", database, perSecond)
		report(name+": p50 ms", median(p50s), atMost(5), "of 5 runs: %.1f", p50s)
		report(name+": p99 ms", median(p99s), atMost(round(bound)),
			"of 5 runs: %.1f, raw fsync p99 %.1f ms", p99s, (bound-20)/3)
	})
}

// TestWebhookBacklog compares the delivery of a backlog with posting the same requests to the sink
// directly, in turns of a second: Steward is paused while the client posts. The client connects anew
// each time, since the rate depends on how its connections happen to share the cores.
func TestWebhookBacklog(t *testing.T) {
	const backlog, conns = 200_000, 10 // the default concurrency of a destination
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in, to, f := install(t, database), startSink(t), &feed{}
		h := in.hook()
		s := fixture{
			in: in, hook: h, destinationID: in.destination(h, to.address), rows: backlog, pending: true, feed: f,
		}
		in.restart(s.load)
		var drained, posted turns
		waittest.Until(t, "the end of the backlog", func() (int, bool) {
			to.wait(backlog - drained.count) // at most a second
			in.pause()
			drained.add(to.take())
			direct := load(t, to.server, conns, time.Second, f.deliveries(conns))
			posted.add(to.expect(len(direct.times)))
			in.resume()
			return drained.count, drained.count >= backlog
		})
		report(fmt.Sprintf("%s: deliver a backlog of %d", database, backlog), drained.rate()/posted.rate(), atLeast(0.5),
			"%.0f/s of %.0f/s in %d turns, CPU %.3f ms, %d duplicates", drained.rate(), posted.rate(), drained.turns,
			process.CPUTime(t, in.server.pid).Seconds()*1000/backlog, drained.repeated)
	})
}

// turns is the sum of what arrived in the turns of one of the two.
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

// TestWebhookIsolation measures a healthy destination alone, and then beside one that hangs and one
// that responds with 500.
func TestWebhookIsolation(t *testing.T) {
	const perSecond, conns, duration = 200, 20, 2 * time.Second
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in, to, f := install(t, database), startSink(t), &feed{}
		h := in.hook()
		in.destination(h, to.address)
		p99 := func() (all []float64) {
			for range 4 {
				sent := load(t, in.server, conns, duration, f.paced(h.path, conns, perSecond))
				all = append(all, millis(to.expect(len(sent.times)).quantile(0.99)))
			}
			return all[1:] // the first warms up
		}
		alone := p99()
		in.destination(h, to.address+"/hang")
		in.destination(h, to.address+"/fail")
		beside := p99()
		bound := max(2*median(alone), median(alone)+20)
		report(fmt.Sprintf("%s: p99 ms beside a hanging and a failing destination", database), median(beside),
			atMost(round(bound)), "%d events/s, alone %.1f, beside %.1f", perSecond, alone, beside)
	})
}

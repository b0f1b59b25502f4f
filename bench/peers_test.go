//go:build bench

package bench

import (
	"fmt"
	"testing"
	"time"

	"steward/internal/db"
)

// TestPeers measures Steward under the load with which other webhook gateways were measured: events of
// 450 bytes, one source, one destination on the same machine. CPU is that of all processes: Steward,
// and PostgreSQL where it is used. BENCHMARKS.md has the figures of the others.
func TestPeers(t *testing.T) {
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in, to, f := install(t, database), startSink(t), &feed{}
		h := in.hook()
		in.destination(h, to.address)
		to.expect(len(load(t, in.server, clients, span, f.events(h.path, clients)).times)) // warms up
		in.waitEnded(h)
		in.analyze()
		fmt.Printf("\n| %s | accepted/s | delivered/s | end to end p50 / p99 | CPU ms/event | of it PostgreSQL |\n|---|---|---|---|---|---|\n", database)
		in.peers("64 clients", to, h, func() result { return load(t, in.server, clients, 5*time.Second, f.events(h.path, clients)) })
		for _, perSecond := range []int{50, 500} {
			in.peers(fmt.Sprintf("%d events/s", perSecond), to, h, func() result {
				return load(t, in.server, clients, 10*time.Second, f.paced(h.path, clients, perSecond))
			})
		}
		in.idle(database)
	})
}

// peers prints the figures of one load.
func (in *installation) peers(name string, to *sink, h hook, send func() result) {
	in.t.Helper()
	before, start := in.cpu(), time.Now()
	sent := send()
	if in.t.Failed() {
		in.t.FailNow() // what was not accepted does not arrive
	}
	arrived := to.expect(len(sent.times))
	in.waitEnded(h)
	used, count := in.cpu().since(before), float64(arrived.Count)
	fmt.Printf("| %s | %.0f | %.0f | %s / %s | %.3f | %.3f |\n", name, sent.rate, count/arrived.Last.Sub(start).Seconds(),
		ms(arrived.quantile(0.5)), ms(arrived.quantile(0.99)), millis(used.all())/count, millis(used.database)/count)
}

// idle prints what Steward and PostgreSQL use when nothing happens.
func (in *installation) idle(database string) {
	in.t.Helper()
	const duration = 60 * time.Second
	time.Sleep(15 * time.Second) // what was written before is vacuumed
	before := in.cpu()
	time.Sleep(duration)
	used := in.cpu().since(before)
	report(database+": idle, % of a core", 100*used.all().Seconds()/duration.Seconds(), atMost(0.3),
		"Steward %.2f, PostgreSQL %.2f", 100*used.steward.Seconds()/duration.Seconds(), 100*used.database.Seconds()/duration.Seconds())
}

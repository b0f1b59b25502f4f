//go:build bench

package bench

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/e2e/process"
	"steward/internal/db"
)

// baseCommit is what this tree is compared with, unless BENCH_AB_BASE says otherwise.
const baseCommit = "731fc75"

// TestAB compares this tree with an earlier commit. Both binaries run side by side, each with its own
// database, and are measured in turn with the same client and the same sink, each first in every other
// round: what one has accepted is vacuumed while the other is measured. The ratio of a figure is the
// median over the rounds.
//
// BENCH_AB_BASE names another commit, or a binary. BENCH_AB_ROUNDS is the number of rounds,
// BENCH_AB_ROWS the number of rows in lists.
func TestAB(t *testing.T) {
	rounds := envInt(t, "BENCH_AB_ROUNDS", 5)
	base := baseBinary(t)
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		to, f := startSink(t), &feed{}
		before := newContender(t, database, base, to, f)
		after := newContender(t, database, "", to, f)
		got := map[string][]pair{}
		for round := range rounds {
			var a, b map[string]float64
			if round%2 == 0 {
				a = before.measure()
				b = after.measure()
			} else {
				b = after.measure()
				a = before.measure()
			}
			for name := range a {
				got[name] = append(got[name], pair{a[name], b[name]})
			}
		}
		printTable(database, got)
	})
}

// figures are the rows of the table, with the goals for the ratio of this tree to the base.
var figures = []struct {
	name string
	goal goal
}{
	{"CPU ms per delivered event", atMost(1.35)},
	{"CPU ms of the database server per delivered event", goal{}},
	{"CPU ms per delivered event, verified and filtered", atMost(1.2)},
	{"CPU ms of the database server per delivered event, verified and filtered", goal{}},
	{"CPU ms per event at 50 events/s, all processes", atMost(1.2)},
	{"delivered/s, 64 clients", atLeast(0.75)},
	{"delivered/s, 64 clients, verified and filtered", goal{}},
	{"ingest/s, 64 clients", atLeast(0.75)},
	{"end to end p50 ms at 50 events/s", atMost(1.3)},
	{"receipts, page of 100, p50 ms", atMost(1.1)},
	{"deliveries, page of 100, p50 ms", atMost(1.5)},
	{"threads, page of 100, p50 ms", atMost(1.5)},
	{"runs, page of 100, p50 ms", atMost(1.5)},
	{"analytics, hours of a year, p50 ms", goal{}},
}

// pair is a figure of the base and of this tree in one round.
type pair struct{ base, tree float64 }

func printTable(database string, got map[string][]pair) {
	fmt.Printf("\n| %s | base | this tree | ratio | goal | |\n|---|---|---|---|---|---|\n", database)
	for _, figure := range figures {
		var base, tree, ratios []float64
		for _, p := range got[figure.name] {
			base = append(base, p.base)
			tree = append(tree, p.tree)
			ratios = append(ratios, p.tree/p.base)
		}
		if len(ratios) == 0 {
			continue // not measured on this database
		}
		ratio := median(ratios)
		fmt.Printf("| %s | %s | %s | %.2f (%.2f–%.2f) | %s | %s |\n", figure.name, short(median(base)), short(median(tree)),
			ratio, slices.Min(ratios), slices.Max(ratios), figure.goal, figure.goal.verdict(ratio))
	}
}

// short formats a figure with three digits.
func short(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// baseBinary returns the path of the binary to compare with: that of BENCH_AB_BASE, or one of the base
// commit, which it builds.
func baseBinary(t *testing.T) string {
	t.Helper()
	base := cmp.Or(os.Getenv("BENCH_AB_BASE"), baseCommit)
	info, err := os.Stat(base)
	if err == nil && info.Mode().IsRegular() {
		return base
	}
	return process.BuildCommit(t, base)
}

// contender is an installation of one of the two binaries.
type contender struct {
	*installation
	to      *sink
	feed    *feed
	ingest  hook // has no destination
	deliver hook
	// gateway verifies events and has a filter, which an earlier tree ignores.
	gateway hook
	pages   map[string]string // paths by figure
}

// newContender starts an installation, fills its lists and warms it up.
func newContender(t *testing.T, database, binary string, to *sink, f *feed) *contender {
	t.Helper()
	s := process.New(t, database)
	s.Binary = binary
	c := &contender{installation: begin(t, s), to: to, feed: f}
	c.insertCounts()
	c.ingest = c.hook()
	c.deliver = c.hook()
	c.destination(c.deliver, to.address)
	c.gateway = c.hook()
	c.call("PUT", "/webhook/update/"+c.gateway.id, map[string]any{
		"verification": map[string]any{"type": "github", "secrets": []string{gatewaySecret}},
	}, new(any))
	c.destination(c.gateway, to.address, "filter", map[string]any{"method": "POST", "body": map[string]any{"text": map[string]any{"$startsWith": "x"}}})
	if binary == "" {
		c.wantVerified()
	}
	lists := c.hook()
	c.destination(lists, to.address)
	c.fillLists(lists, envInt(t, "BENCH_AB_ROWS", 20_000))
	year := time.Now().UTC().Add(-365 * 24 * time.Hour).Format(time.RFC3339)
	c.pages = map[string]string{
		"receipts, page of 100, p50 ms":      "/webhook/receipt-list/" + lists.id + "?limit=100",
		"deliveries, page of 100, p50 ms":    "/webhook/delivery-list/" + lists.id + "?limit=100",
		"threads, page of 100, p50 ms":       "/thread?limit=100",
		"runs, page of 100, p50 ms":          "/cli/eval-run?limit=100",
		"analytics, hours of a year, p50 ms": "/webhook/analytics/org/timeseries?granularity=hour&start=" + year,
	}
	to.expect(len(c.load(conns, span/4, f.events(c.deliver.path, conns)).times))
	c.analyze()
	return c
}

const gatewaySecret = "a-secret-of-the-sender"

// wantVerified fails the benchmark unless the gateway refuses an unsigned request.
func (c *contender) wantVerified() {
	c.t.Helper()
	res, err := http.Post(c.URL+c.gateway.path, "application/json", strings.NewReader("{}"))
	c.Must(err)
	c.Must(res.Body.Close())
	if res.StatusCode != http.StatusUnauthorized {
		c.t.Fatalf("an unsigned request got status %d", res.StatusCode)
	}
}

// conns is the number of connections of the loads.
const conns = clients

func (c *contender) load(conns int, duration time.Duration, next source) result {
	c.t.Helper()
	r := load(c.t, c.server, conns, duration, next)
	if c.t.Failed() {
		c.t.FailNow()
	}
	return r
}

// fillLists creates receipts with a delivery each, threads and runs, through the API.
func (c *contender) fillLists(lists hook, rows int) {
	c.t.Helper()
	fill := func(next source) { c.load(conns, time.Hour, next.first(rows, conns)) }
	fill(c.feed.events(lists.path, conns))
	c.to.expect(rows)
	fill(func(conn, i int) []byte {
		body := fmt.Appendf(nil, `{"project_id":"p1","user_data":%q,"metadata":{"user":"u%d"}}`, userData, i%200)
		return request("PUT", fmt.Sprintf("/thread/thrd_%d_%d", conn, i), c.Key, body)
	})
	fill(func(conn, i int) []byte {
		return request("POST", "/evalrun", c.Key, newRun(c.orgID, int64(i*conns+conn)))
	})
	fill(func(conn, i int) []byte {
		return request("PUT", "/evalrun", c.Key, completedRun(fmt.Sprintf("new_%d", i*conns+conn)))
	})
}

// measure returns the figures of one round, by name.
func (c *contender) measure() map[string]float64 {
	c.t.Helper()
	got := map[string]float64{"ingest/s, 64 clients": c.load(conns, span, c.feed.events(c.ingest.path, conns)).rate}
	c.measureDeliveries(got, c.deliver, c.feed.events(c.deliver.path, conns), "")
	c.measureDeliveries(got, c.gateway, c.feed.signed(c.gateway.path, gatewaySecret, conns), ", verified and filtered")
	c.measurePaced(got)
	for name, path := range c.pages {
		page := always(request("GET", path, c.Key, nil))
		got[name] = millis(c.load(pageConns, 800*time.Millisecond, page).quantile(0.5))
	}
	return got
}

// measureDeliveries sends events to a webhook until their deliveries have ended. kind ends the names of the figures.
func (c *contender) measureDeliveries(got map[string]float64, to hook, events source, kind string) {
	c.t.Helper()
	before, start := c.cpu(), time.Now()
	sent := c.load(conns, span, events)
	arrived := c.to.expect(len(sent.times))
	c.waitEnded(to)
	used, count := c.cpu().since(before), float64(arrived.Count)
	got["CPU ms per delivered event"+kind] = millis(used.steward) / count
	if c.Database != "" {
		got["CPU ms of the database server per delivered event"+kind] = millis(used.database) / count
	}
	got["delivered/s, 64 clients"+kind] = count / arrived.Last.Sub(start).Seconds()
}

// measurePaced sends few events, at a fixed rate.
func (c *contender) measurePaced(got map[string]float64) {
	c.t.Helper()
	const perSecond, paced = 50, 10
	before := c.cpu()
	sent := c.load(paced, 5*time.Second, c.feed.paced(c.deliver.path, paced, perSecond))
	arrived := c.to.expect(len(sent.times))
	c.waitEnded(c.deliver)
	got["CPU ms per event at 50 events/s, all processes"] = millis(c.cpu().since(before).all()) / float64(arrived.Count)
	got["end to end p50 ms at 50 events/s"] = millis(arrived.quantile(0.5))
}

//go:build bench

package bench

import (
	"fmt"
	"testing"

	"steward/internal/db"
)

// TestRequestsBesideAnOpenStore compares requests to an installation that has a store of a million keys open with those
// to one that has none: the garbage collector walks through the keys. It compares CPU times, since other work on the
// machine decides the rest.
func TestRequestsBesideAnOpenStore(t *testing.T) {
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		alone, beside := install(t, database), install(t, database)
		hooks := map[*installation]hook{alone: alone.hook(), beside: beside.hook()}
		events := func(in *installation) func() result {
			return func() result { return load(t, in.server, 2, span, new(feed).events(hooks[in].path, 2)) }
		}
		pages := func(in *installation) func() result {
			page := request("GET", "/webhook/receipt-list/"+hooks[in].id+"?limit=100", in.Key, nil)
			return func() result { return load(t, in.server, 2, span, always(page)) }
		}
		events(alone)()
		events(beside)()
		fillKV(t, beside.kvStore().client(t), 1_000_000, func(n int) []any {
			return []any{"SET", fmt.Sprintf("key:%012d", n), "value"}
		})
		for what, requests := range map[string]func(*installation) func() result{"a page of receipts": pages, "an event": events} {
			perCPU := func(measure func() result) func() result {
				return func() result { r := measure(); r.rate = 1 / r.cpu; return r }
			}
			ratio, ref, got := compare(7, perCPU(requests(alone)), perCPU(requests(beside)))
			report(fmt.Sprintf("%s: %s beside a million keys, CPU time", database, what), 1/ratio, atMost(1.2),
				"CPU %.3f of %.3f ms, p99 %s of %s", got.cpu, ref.cpu, ms(got.quantile(0.99)), ms(ref.quantile(0.99)))
		}
	})
}

//go:build bench

package bench

import (
	"fmt"
	"strings"
	"testing"

	"steward/internal/db"
)

// TestRequests compares plain management requests with the reference handler.
func TestRequests(t *testing.T) {
	ref := startReference(t)
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in := install(t, database)
		var keys []struct{ ID string }
		in.call("GET", "/cli/apikey", nil, &keys)
		for _, route := range []string{"/cli/region", "/cli/apikey/{id}"} {
			get := always(request("GET", strings.Replace(route, "{id}", keys[0].ID, 1), in.Key, nil))
			for _, conns := range []int{8, 64} {
				ratio, empty, got := compare(3,
					func() result { return load(t, ref, conns, span, get) },
					func() result { return load(t, in.server, conns, span, get) })
				report(fmt.Sprintf("%s: GET %s, %d connections", database, route, conns), ratio, atLeast(0.6),
					"%.0f/s of %.0f/s, CPU %.3f ms (empty %.3f)", got.rate, empty.rate, got.cpu, empty.cpu)
			}
		}
	})
}

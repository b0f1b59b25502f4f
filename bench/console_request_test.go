//go:build bench

package bench

import (
	"fmt"
	"math"
	"net/url"
	"testing"
	"time"

	"steward/internal/db"
)

// TestConsoleRequest compares a request of the console, with its cookie, to the same request with
// an API key at the root: the session may cost a tenth. The shell of the pages is compared with the
// reference handler.
func TestConsoleRequest(t *testing.T) {
	ref := startReference(t)
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		r := startProvider(t, database)
		header := r.consoleHeader()
		byKey := always([]byte("GET /cli/region" + header + "Authorization: Bearer " + r.Key + "\r\n\r\n"))
		byCookie := always([]byte("GET /console/api/cli/region" + header + "\r\n"))
		shell := always(request("GET", "/console/webhooks", "", nil))
		key, console := leastCPU(20,
			func() result { return load(t, r.server, 8, time.Second, byKey) },
			func() result { return load(t, r.server, 8, time.Second, byCookie) })
		report(database+": GET /cli/region of the console", console/key, atMost(1.1), "CPU %.4f ms, with an API key %.4f", console, key)
		ratio, empty, got := compare(3,
			func() result { return load(t, ref, 8, span, shell) },
			func() result { return load(t, r.server, 8, span, shell) })
		report(database+": GET /console/webhooks (the shell)", ratio, goal{},
			"%.0f/s of %.0f/s, CPU %.3f ms (empty %.3f)", got.rate, empty.rate, got.cpu, empty.cpu)
	})
}

// leastCPU measures two loads in turn, and returns the least CPU time of a response of each, in
// milliseconds: what else the machine does only adds to it.
func leastCPU(rounds int, first, second func() result) (a, b float64) {
	a, b = math.Inf(1), math.Inf(1)
	for range rounds {
		a = min(a, first().cpu)
		b = min(b, second().cpu)
	}
	return a, b
}

// consoleHeader signs the user in to the console and returns the header of a request as its pages
// send it.
func (r *relyingParty) consoleHeader() string {
	r.t.Helper()
	page, err := r.do("GET", r.URL+"/console/sign-in", nil, false)
	r.Must(err)
	next, err := r.submit(page)
	r.Must(err)
	_, err = r.do("GET", r.URL+next, nil, false)
	r.Must(err)
	u, err := url.Parse(r.URL + "/console/api/")
	r.Must(err)
	for _, cookie := range r.user.Jar.Cookies(u) {
		if cookie.Name == "steward_console" {
			return fmt.Sprintf(" HTTP/1.1\r\nHost: steward\r\nX-Steward-Console: 1\r\nX-Steward-Organization: %s\r\n"+
				"Sec-Fetch-Site: same-origin\r\nCookie: %s\r\n", r.orgID, cookie)
		}
	}
	r.t.Fatal("the sign-in sets no cookie")
	return ""
}

//go:build bench

package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// list is a page of a list and the number of rows that it must have, -1 if that varies. {n} in its
// query stands for one number after the other, below of.
type list struct {
	name, query string
	of, rows    int
}

// pageConns is the number of connections that pages are requested over. With more, the time that
// requests wait for each other would be measured.
const pageConns = 2

// lists measures pages. The p99 of the empty handler at the same moment shows what the machine adds.
func (in *installation) lists(ref server, path string, all []list) {
	in.t.Helper()
	for _, l := range all {
		at := func(i int) string {
			return path + "?" + strings.ReplaceAll(l.query, "{n}", strconv.Itoa(i*7919%max(1, l.of)))
		}
		var page []json.RawMessage
		in.call("GET", at(1), nil, &page)
		if l.rows >= 0 && len(page) != l.rows {
			in.t.Errorf("%s: %d rows, want %d", at(1), len(page), l.rows)
		}
		empty := load(in.t, ref, pageConns, 200*time.Millisecond, always(request("GET", "/", "", nil)))
		got := load(in.t, in.server, pageConns, 800*time.Millisecond, func(conn, i int) []byte {
			return request("GET", at(conn+pageConns*i), in.Key, nil)
		})
		report(fmt.Sprintf("%s: %s: %s, p99 ms", in.engine(), path, l.name), millis(got.quantile(0.99)), atMost(10),
			"p50 %s, %.0f/s, CPU %.3f ms (empty: p99 %s)", ms(got.quantile(0.5)), got.rate, got.cpu, ms(empty.quantile(0.99)))
	}
}

// cursorAt returns the cursor of the page that begins after so many rows.
func (in *installation) cursorAt(path string, offset int) string {
	in.t.Helper()
	next := nextPage(in.call("GET", fmt.Sprintf("%s?limit=1&offset=%d", path, offset-1), nil, new(any)))
	u, err := url.Parse(next)
	in.Must(err)
	if !u.Query().Has("cursor") {
		in.t.Fatalf("%s: the next link is %q", path, next)
	}
	return u.Query().Get("cursor")
}

var nextLink = regexp.MustCompile(`<([^>]*)>; rel="next"`)

// nextPage returns the path of the next page, or "" on the last one.
func nextPage(header http.Header) string {
	link := nextLink.FindStringSubmatch(header.Get("Link"))
	if link == nil {
		return ""
	}
	return link[1]
}

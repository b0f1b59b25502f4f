//go:build bench

package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"steward/internal/db"
)

// TestWebhookLists measures the lists and single rows of a webhook with BENCH_ROWS receipts and as many
// deliveries. The p99 of the empty handler at the same moment shows what the machine adds.
func TestWebhookLists(t *testing.T) {
	rows, ref := rowCount(t), startReference(t)
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in := install(t, database)
		h := in.hook()
		s := fixture{in: in, hook: h, destinationID: in.destination(h, "127.0.0.1:9"), rows: rows}
		in.restart(s.load)
		fmt.Printf("%s: %d receipts and deliveries were loaded in %.0f s\n", database, rows, s.took.Seconds())
		for _, route := range append(s.fixed(), append(s.paged("receipt-list"), s.paged("delivery-list")...)...) {
			empty := load(t, ref, pageConns, 200*time.Millisecond, always(request("GET", "/", "", nil)))
			got := load(t, in.server, pageConns, time.Second, func(_, i int) []byte {
				return request("GET", s.expand(route.path, i), in.Key, nil)
			})
			report(fmt.Sprintf("%s: %s, p99 ms", database, route.name), millis(got.quantile(0.99)), atMost(route.goal),
				"p50 %s, %.0f/s, CPU %.2f ms (empty: p99 %s)", ms(got.quantile(0.5)), got.rate, got.cpu, ms(empty.quantile(0.99)))
		}
		s.depth(database, "receipt-list")
		s.depth(database, "delivery-list")
	})
}

// TestWebhookSearch measures searches of BENCH_ROWS receipts: pages, of which the first one looks as
// far as it may because nothing has its text, and a search and an export of all.
func TestWebhookSearch(t *testing.T) {
	rows, ref := rowCount(t), startReference(t)
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in := install(t, database)
		h := in.hook()
		s := fixture{in: in, hook: h, destinationID: in.destination(h, "127.0.0.1:9"), rows: rows}
		in.restart(s.load)
		path := "/webhook/receipt-list/" + h.id + "?q="
		for _, search := range []route{
			{"first page, text in none", path + "not-in-any-receipt", 0},
			{"first page, text in all", path + "e", 0},
			{"first page, failing", "/webhook/receipt-list/" + h.id + "?state=failing", 0},
		} {
			empty := load(t, ref, 1, 200*time.Millisecond, always(request("GET", "/", "", nil)))
			got := load(t, in.server, 1, 10*time.Second, always(request("GET", search.path, in.Key, nil)))
			header := in.call("GET", search.path, nil, new(any))
			report(fmt.Sprintf("%s: search of %d, %s, p50 ms", database, rows, search.name), millis(got.quantile(0.5)), goal{},
				"p99 %s, CPU %.1f ms, searched to %s (empty: p50 %s)", ms(got.quantile(0.99)), got.cpu,
				header.Get("Steward-Searched-To"), ms(empty.quantile(0.5)))
		}
		start, pages := time.Now(), 0
		for page := path + "not-in-any-receipt"; page != ""; pages++ {
			_, page = s.follow(page)
		}
		fmt.Printf("%-58s %8.0f receipts/s, %d requests\n", database+": search of all", float64(rows)/time.Since(start).Seconds(), pages)
		start = time.Now()
		lines := in.exported(h.id)
		if lines != rows {
			t.Errorf("%d lines, want %d", lines, rows)
		}
		fmt.Printf("%-58s %8.0f receipts/s\n", database+": export", float64(rows)/time.Since(start).Seconds())
	})
}

// exported returns the number of lines of an export.
func (in *installation) exported(webhookID string) (lines int) {
	in.t.Helper()
	req, err := http.NewRequest("GET", in.URL+"/webhook/receipt-export/"+webhookID, nil)
	in.Must(err)
	req.Header.Set("Authorization", "Bearer "+in.Key)
	res, err := http.DefaultClient.Do(req)
	in.Must(err)
	defer res.Body.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := res.Body.Read(buf)
		lines += bytes.Count(buf[:n], []byte{'\n'})
		if err == io.EOF {
			return lines
		}
		in.Must(err)
	}
}

// depth measures by how much a page at nine tenths of a list, by offset, is slower than the first one.
func (s *fixture) depth(database, list string) {
	offset := s.rows / 10 * 9
	at := func(offset int) result {
		path := fmt.Sprintf("/webhook/%s/%s?offset=%d", list, s.hook.id, offset)
		return load(s.in.t, s.in.server, pageConns, time.Second, always(request("GET", path, s.in.Key, nil)))
	}
	first, deep := at(0), at(offset)
	report(fmt.Sprintf("%s: %s, offset %d to 0, ratio", database, list, offset),
		float64(deep.quantile(0.5))/float64(first.quantile(0.5)), goal{},
		"p50 %s and %s, CPU %.1f ms and %.2f ms", ms(deep.quantile(0.5)), ms(first.quantile(0.5)), deep.cpu, first.cpu)
}

// route is a request with its goal in milliseconds. {receipt} in its path stands for one receipt after
// the other, {moment} for the time one hour ago.
type route struct {
	name, path string
	goal       float64
}

func (s *fixture) expand(path string, i int) string {
	return strings.NewReplacer("{receipt}", s.sample[i*7%len(s.sample)],
		"{moment}", time.Now().Add(-time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z")).Replace(path)
}

// fixed returns the routes whose paths are known beforehand.
func (s *fixture) fixed() []route {
	at := func(name, query string) string { return "/webhook/" + name + "/" + s.hook.id + query }
	ago := func(d time.Duration) []string { return []string{time.Now().Add(-d).UTC().Format(time.RFC3339)} }
	hour := url.Values{"since": ago(fixtureAge / 2), "until": ago(fixtureAge/2 - time.Hour)}.Encode()
	lastHour := url.Values{"since": ago(time.Hour)}.Encode()
	failed := url.Values{"status": {"failed"}, "since": ago(2 * 24 * time.Hour)}.Encode()
	year := "?" + url.Values{"start": ago(365 * 24 * time.Hour), "granularity": {"hour"}}.Encode()
	week := "?" + url.Values{"start": ago(165 * time.Hour), "granularity": {"minute"}}.Encode()
	return []route{
		{"webhooks", "/webhook/list", 5},
		{"webhook", at("get", ""), 5},
		{"destinations", at("destination-list", ""), 5},
		{"a receipt", at("receipt-get", "/{receipt}"), 5},
		{"a receipt's payload", at("receipt-payload", "/{receipt}"), 5},
		{"receipts of an hour", at("receipt-list", "?"+hour), 5},
		{"deliveries of an hour", at("delivery-list", "?"+hour), 5},
		{"deliveries of a receipt", at("delivery-list", "?receiptId={receipt}"), 5},
		{"deliveries to a destination", at("delivery-list", "?destinationId="+s.destinationID), 5},
		{"failed deliveries", at("delivery-list", "?status=failed"), 5},
		{"failed deliveries to a destination", at("delivery-list", "?status=failed&destinationId="+s.destinationID), 5},
		{"pending deliveries to a destination", at("delivery-list", "?status=pending&destinationId="+s.destinationID), 5},
		{"receipts of the last hour", at("receipt-list", "?"+lastHour), 5},
		{"receipts of the last hour, changing since", at("receipt-list", "?since={moment}"), 5},
		{"deliveries of the last hour", at("delivery-list", "?"+lastHour), 5},
		{"deliveries of the last hour, changing since", at("delivery-list", "?since={moment}"), 5},
		{"to a destination in the last hour", at("delivery-list", "?destinationId="+s.destinationID+"&"+lastHour), 5},
		{"failed deliveries of two days", at("delivery-list", "?"+failed), 5},
		{"sums of a year", "/webhook/analytics/org" + year, 10},
		{"hours of a year", "/webhook/analytics/org/timeseries" + year, 10},
		{"minutes of a week", "/webhook/analytics/org/timeseries" + week, 10},
	}
}

// paged reads a list to its end by cursor, and returns its first page, the one in the middle and the
// last one as routes. Every row must be listed once.
func (s *fixture) paged(list string) []route {
	first := "/webhook/" + list + "/" + s.hook.id
	routes := []route{{list + ", first page", first, 5}}
	seen, page, start := 0, first+"?limit=1000", time.Now()
	for last := ""; page != ""; last = page {
		var n int
		middle := seen < s.rows/2
		n, page = s.follow(page)
		seen += n
		if middle && seen >= s.rows/2 && page != "" {
			routes = append(routes, route{list + ", middle", strings.Replace(page, "limit=1000", "limit=100", 1), 5})
		}
		if page == "" && last != "" {
			routes = append(routes, route{list + ", end", strings.Replace(last, "limit=1000", "limit=100", 1), 5})
		}
	}
	if seen != s.rows {
		s.in.t.Errorf("%s has %d rows, want %d", list, seen, s.rows)
	}
	fmt.Printf("%-58s %8.0f rows/s\n", list+", all pages of 1000", float64(seen)/time.Since(start).Seconds())
	return routes
}

// follow reads a page and returns its number of rows and the path of the next page.
func (s *fixture) follow(page string) (rows int, next string) {
	s.in.t.Helper()
	var list []struct{}
	header := s.in.call("GET", page, nil, &list)
	return len(list), nextPage(header)
}

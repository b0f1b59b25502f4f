//go:build bench

package bench

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/webhook"
)

// week is how far the dates of stocked rows reach back: less than the retention, so that they stay.
const week = 7 * 24 * time.Hour

// TestWebhookLists measures the lists and the single rows of a webhook with a million receipts and as many deliveries; BENCH_ROWS changes
// that. Two connections ask one after the other, so what is measured is the answer itself and not a queue before it; the empty handler's
// p99 of the same moment tells what the machine adds by itself.
func TestWebhookLists(t *testing.T) {
	rows, ref := rowCount(t), startReference(t)
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in := install(t, database)
		h := in.hook()
		s := stock{in: in, hook: h, destinationID: in.destination(h, "127.0.0.1:9"), rows: rows}
		in.restart(s.load)
		fmt.Printf("%s: %d receipts and deliveries were loaded in %.0f s\n", database, rows, s.took.Seconds())
		for _, route := range append(s.fixed(), append(s.paged("receipt-list"), s.paged("delivery-list")...)...) {
			empty := load(t, ref, 2, 200*time.Millisecond, always(request("GET", "/", "", nil)))
			got := load(t, in.server, 2, time.Second, func(_, i int) []byte {
				return request("GET", s.fill(route.path, i), in.Key, nil)
			})
			report(t, fmt.Sprintf("%s: %s, p99 ms", database, route.name), millis(got.quantile(0.99)), route.goal, false,
				"p50 %s, %.0f/s, CPU %.2f ms (empty: p99 %s)", ms(got.quantile(0.5)), got.rate, got.cpu, ms(empty.quantile(0.99)))
		}
	})
}

// route is a request with its goal in milliseconds. {receipt} in its path stands for one receipt after the other, {moment} for one time
// after the other of about an hour ago.
type route struct {
	name, path string
	goal       float64
}

func (s *stock) fill(path string, i int) string {
	return strings.NewReplacer("{receipt}", s.sample[i*7%len(s.sample)],
		"{moment}", time.Now().Add(-time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z")).Replace(path)
}

// fixed are the routes that need no walk.
func (s *stock) fixed() []route {
	at := func(name, query string) string { return "/webhook/" + name + "/" + s.hook.id + query }
	ago := func(d time.Duration) []string { return []string{time.Now().Add(-d).UTC().Format(time.RFC3339)} }
	hour := url.Values{"since": ago(week / 2), "until": ago(week/2 - time.Hour)}.Encode()
	lastHour := url.Values{"since": ago(time.Hour)}.Encode()
	failed := url.Values{"status": {"failed"}, "since": ago(2 * 24 * time.Hour)}.Encode()
	year := "?" + url.Values{"start": ago(365 * 24 * time.Hour), "granularity": {"hour"}}.Encode()
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
		{"receipts of the last hour", at("receipt-list", "?"+lastHour), 5},
		{"receipts of the last hour, each time anew", at("receipt-list", "?since={moment}"), 5},
		{"deliveries of the last hour", at("delivery-list", "?"+lastHour), 5},
		{"deliveries of the last hour, each time anew", at("delivery-list", "?since={moment}"), 5},
		{"to a destination in the last hour", at("delivery-list", "?destinationId="+s.destinationID+"&"+lastHour), 5},
		{"failed deliveries of two days", at("delivery-list", "?"+failed), 5},
		{"sums of a year", "/webhook/analytics/org" + year, 10},
		{"hours of a year", "/webhook/analytics/org/timeseries" + year, 10},
		{"minutes of a week", "/webhook/analytics/org/timeseries?granularity=minute&" + url.Values{"start": ago(165 * time.Hour)}.Encode(), 10},
	}
}

var nextLink = regexp.MustCompile(`<([^>]*)>; rel="next"`)

// paged walks a list to its end by cursor, and gives its first page, the one in the middle and the last one as routes. The walk must see
// every row once.
func (s *stock) paged(list string) []route {
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
		s.in.t.Errorf("the walk of %s saw %d rows of %d", list, seen, s.rows)
	}
	fmt.Printf("%-58s %8.0f rows/s\n", "walk of "+list+" by pages of 1000", float64(seen)/time.Since(start).Seconds())
	return routes
}

// follow reads a page and gives its number of rows, and the next page's path.
func (s *stock) follow(page string) (rows int, next string) {
	req, err := http.NewRequest("GET", s.in.URL+page, nil)
	s.in.Must(err)
	req.Header.Set("Authorization", "Bearer "+s.in.Key)
	res, err := client.Do(req)
	s.in.Must(err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	s.in.Must(err)
	if res.StatusCode != http.StatusOK {
		s.in.t.Fatalf("%s: %d %s", page, res.StatusCode, body)
	}
	if link := nextLink.FindStringSubmatch(res.Header.Get("Link")); link != nil {
		next = link[1]
	}
	return strings.Count(string(body), `"webhook_id"`), next
}

// stock is what is written into a database by SQL while Steward is down, as it would have left it: receipts of the last week with one
// delivery each, and a year of counts.
type stock struct {
	in            *installation
	hook          hook
	destinationID string
	rows          int
	// pending has all deliveries wait to be sent; else they are done, one in fifty of them in vain.
	pending bool
	feed    *feed // numbers the events, where they are sent

	sample []string // ids of some receipts, from everywhere
	took   time.Duration
}

const (
	stockHeads = `{"content-length":"450","content-type":"application/json","host":"steward"}`
	stockReply = `{"status":200,"headers":{"content-length":"2","content-type":"text/plain; charset=utf-8","date":` +
		`"Sun, 15 Nov 2026 08:30:00 GMT"},"body":"ok","duration_ms":1}`

	receiptColumns  = "key, date, method, query, remote_addr, content_type, size, headers, body"
	deliveryColumns = "key, destination_id, receipt_id, date, retries, status, failed, finished_at, error, response"
	queueColumns    = "key, destination_id, receipt_key, date, retries, org_id, ready, due_at"

	// $3 is the unit, $4 to $5 are its buckets.
	stockCounts = `WITH RECURSIVE b(bucket) AS (SELECT CAST($4 AS BIGINT) UNION ALL SELECT bucket + 1 FROM b WHERE bucket < CAST($5 AS BIGINT))
		INSERT INTO webhook_counts (org_id, unit, bucket, shard, received, delivered, failed)
		SELECT $1, CAST($3 AS BIGINT), bucket, CAST($2 AS BIGINT), bucket % 1000, bucket % 900, bucket % 100 FROM b`
)

func (s *stock) load() {
	start := time.Now()
	d, err := db.Open(s.in.t.Context(), db.Options{URL: s.in.Database, Path: filepath.Join(s.in.Dir, "steward.db")})
	s.in.Must(err)
	const atOnce = 5000
	for at := 0; at < s.rows; at += atOnce {
		receipts, deliveries := s.make(start, at, min(atOnce, s.rows-at))
		s.in.Must(d.Write(s.in.t.Context(), func(tx *db.Tx) error {
			err := insert(tx, "webhook_receipts", receiptColumns, receipts)
			return errors.Join(err, insert(tx, "webhook_deliveries", deliveryColumns, deliveries), s.enqueue(tx, deliveries))
		}))
	}
	s.in.Must(d.Write(s.in.t.Context(), func(tx *db.Tx) error { return s.sums(tx, start) }))
	retention := webhook.Retention{Store: &webhook.Store{DB: d, Now: time.Now}, Keep: 2 * week}
	s.in.Must(retention.Run(s.in.t.Context())) // packs the days, as it would have done day by day
	s.in.Must(d.Close())
	s.in.analyze()
	s.took = time.Since(start)
}

// make gives the columns of n receipts and of their deliveries, from the at-th on.
func (s *stock) make(now time.Time, at, n int) (receipts, deliveries [][]any) {
	for i := at; i < at+n; i++ {
		date := now.Add(-week + time.Duration(float64(week)*float64(i)/float64(s.rows)))
		receiptID, body, micros := id.At(id.Receipt, date), newEvent(), date.UnixMicro()
		if s.feed != nil {
			mark(body, s.feed.last.Add(1), now)
		}
		if i%max(1, s.rows/1000) == 0 {
			s.sample = append(s.sample, receiptID)
		}
		receipts = append(receipts, []any{
			s.key(receiptID), micros, "POST", "", "127.0.0.1", "application/json", int64(len(body)), stockHeads, body,
		})
		deliveries = append(deliveries, append(
			[]any{s.key(id.At(id.Delivery, date)), s.destinationID, receiptID, micros}, s.state(i, micros)...))
	}
	return receipts, deliveries
}

// key is that of a row of the webhook: its ULID, and then the row's.
func (s *stock) key(rowID string) string {
	_, hook, _ := strings.Cut(s.hook.id, "_")
	_, row, _ := strings.Cut(rowID, "_")
	return hook + row
}

// insert writes rows, a hundred with one statement.
func insert(tx *db.Tx, table, columns string, rows [][]any) error {
	for chunk := range slices.Chunk(rows, 100) {
		text := "INSERT INTO " + table + " (" + columns + ") VALUES " + tuples(tx.Dialect(), len(chunk), len(chunk[0]))
		if err := tx.Send(text, slices.Concat(chunk...)...); err != nil {
			return err
		}
	}
	return nil
}

// enqueue writes pending deliveries into the queue.
func (s *stock) enqueue(tx *db.Tx, deliveries [][]any) error {
	if !s.pending {
		return nil
	}
	var rows [][]any
	for _, d := range deliveries {
		key, destinationID, receiptID, date := d[0], d[1], d[2].(string), d[3]
		rows = append(rows, []any{key, destinationID, s.key(receiptID), date, int64(0), s.in.orgID, true, date})
	}
	return insert(tx, "webhook_queue", queueColumns, rows)
}

// state is retries, status, failed, finished_at, error and response of the i-th delivery.
func (s *stock) state(i int, micros int64) []any {
	switch {
	case s.pending:
		return []any{int64(0), "pending", false, nil, nil, nil}
	case i%50 == 0:
		return []any{int64(0), "failed", true, micros, "the destination did not answer within 15 s", nil}
	}
	return []any{int64(0), "success", false, micros, nil, stockReply}
}

// tuples are the placeholders of so many rows. SQLite gets them without numbers: those it looks up one by one, for each of them.
func tuples(dialect db.Dialect, rows, columns int) string {
	all := make([]string, rows)
	for row := range all {
		marks := make([]string, columns)
		for i := range marks {
			marks[i] = "?"
			if dialect == db.Postgres {
				marks[i] = "$" + strconv.Itoa(row*columns+i+1)
			}
		}
		all[row] = "(" + strings.Join(marks, ",") + ")"
	}
	return strings.Join(all, ",")
}

func (s *stock) sums(tx *db.Tx, now time.Time) error {
	_, err := tx.Exec(`INSERT INTO webhook_totals (org_id, webhook_id, shard, receipts, deliveries) VALUES ($1, $2, 0, $3, $4)`,
		s.in.orgID, s.hook.id, s.rows, s.rows)
	for _, unit := range []int64{60, 3600, 86400} {
		if err == nil {
			_, err = tx.Exec(stockCounts, s.in.orgID, 0, unit, now.Add(-366*24*time.Hour).Unix()/unit, now.Unix()/unit)
		}
	}
	return err
}

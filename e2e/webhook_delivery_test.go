package e2e

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/apikey"
	"steward/internal/db"
	"steward/internal/waittest"
)

// TestWebhookOrder: with one delivery at a time, a destination gets events in the order in which they were taken in.
func TestWebhookOrder(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h := newSink(t), s.hook("orders")
		s.destination(h, k.URL+"/order", "concurrency", 1)
		var want []string
		for i := range 60 {
			want = append(want, s.ingest(h, fmt.Sprint(i)))
		}
		var got []string
		for i, a := range k.await("/order", len(want)) {
			got = append(got, a.header.Get("Webhook-Id"))
			if a.body != fmt.Sprint(i) {
				t.Errorf("number %d has the body %s", i, a.body)
			}
		}
		if !slices.Equal(got, want) || !slices.IsSorted(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// TestWebhookOrderUnderLoad is the same with many clients at once, so that a backlog grows: the order is that of the receipts.
func TestWebhookOrderUnderLoad(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h, acked, stop := newSink(t), s.hook("orders"), &taken{all: map[string]string{}}, make(chan struct{})
		s.destination(h, k.URL+"/order", "concurrency", 1)
		clients := s.load(h, "order", 32, acked, stop)
		k.await("/order", 500)
		close(stop)
		clients.Wait()
		var got []string
		for _, a := range k.await("/order", acked.size()) {
			got = append(got, a.header.Get("Webhook-Id"))
		}
		if len(got) != acked.size() || !slices.IsSorted(got) {
			t.Errorf("%d of %d arrived, sorted: %v", len(got), acked.size(), slices.IsSorted(got))
		}
	})
}

// TestWebhookDestinationChanges: what is changed holds for the next event.
func TestWebhookDestinationChanges(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h := newSink(t), s.hook("orders")
		id, _ := s.destination(h, k.URL+"/a", "max_retries", 0)
		path := "/webhook/destination-update/" + h.ID + "/" + id
		s.ingest(h, "1")
		k.await("/a", 1)
		s.call("PUT", path, map[string]any{}).want(200)
		s.ingest(h, "2")
		k.await("/a", 2)
		s.call("PUT", path, map[string]any{"config": map[string]any{"url": k.URL + "/b", "own": "kept"}}).want(200)
		s.ingest(h, "3")
		k.await("/b", 1)
		off := s.call("PUT", path, map[string]any{"config": map[string]any{"url": k.URL + "/b", "disabled": true}}).want(200)
		if off.get("config.own") != nil || off.get("config.disabled") != true || off.get("secret") != nil {
			t.Errorf("updated to %s", off.body)
		}
		s.ingest(h, "4") // nobody gets it
		s.call("PUT", path, map[string]any{"config": map[string]any{"url": k.URL + "/c"}}).want(200)
		s.ingest(h, "5")
		k.await("/c", 1)
		if k.count("/a") != 2 || k.count("/b") != 1 || k.count("/c") != 1 || s.total("/webhook/delivery-list/"+h.ID) != "4" {
			t.Errorf("the deliveries are %+v", s.deliveries(h, ""))
		}
		s.call("DELETE", "/webhook/destination-delete/"+h.ID+"/"+id, nil).want(204)
		s.ingest(h, "6")
		if total := s.total("/webhook/delivery-list/" + h.ID); total != "4" {
			t.Errorf("%s deliveries after the destination is gone", total)
		}
		for _, bad := range []map[string]any{
			{"url": "ftp://a"},
			{"url": ""},
			{"url": k.URL, "timeout_seconds": 61},
			{"url": k.URL, "max_retries": -1},
			{"url": k.URL, "concurrency": 0},
		} {
			s.call("POST", "/webhook/destination-create/"+h.ID, map[string]any{"type": "url", "config": bad}).want(422)
		}
		s.call("POST", "/webhook/destination-create/"+h.ID, map[string]any{"type": "fax", "config": map[string]any{"url": k.URL}}).want(422)
	})
}

func (s *steward) retry(h hook, deliveryID string, body any) *answer {
	s.t.Helper()
	return s.call("POST", "/webhook/delivery-retry/"+h.ID+"/"+deliveryID, body)
}

// TestWebhookRetryByHand walks one chain: failed, its waiting attempt made due, failed for good, and one more attempt by hand.
func TestWebhookRetryByHand(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h := newSink(t), s.hook("orders")
		k.status("/broken", 500)
		id, _ := s.destination(h, k.URL+"/broken", "max_retries", 1)
		receiptID := s.ingest(h, "x")
		chain := s.ended(h, id)
		if len(chain) != 2 || chain[1].Status != "pending" {
			t.Fatalf("the chain is %+v", chain)
		}
		waiting := chain[1].ID
		if a := s.retry(h, waiting, nil).want(409); a.code() != "conflict" {
			t.Errorf("a retry of a pending one: %s", a.body)
		}
		var again delivery
		s.retry(h, chain[0].ID, "").want(200).into(&again)
		if again.ID != waiting || again.Status != "pending" || again.Retries != 1 || again.ReceiptID != receiptID {
			t.Errorf("the retry gave %+v, want %s", again, waiting)
		}
		s.endsAs(h, waiting, "failed")
		if all := s.deliveries(h, ""); len(all) != 2 {
			t.Errorf("after the last retry the chain goes on: %+v", all)
		}
		k.status("/broken", 200)
		s.retry(h, waiting, map[string]any{}).want(200).into(&again)
		if again.ID == waiting || again.Status != "pending" || again.Retries != 2 {
			t.Errorf("the retry gave %+v", again)
		}
		s.endsAs(h, again.ID, "success")
		s.retry(h, again.ID, nil).want(409)
		if n := k.count("/broken"); n != 3 {
			t.Errorf("%d requests were sent, want 3", n)
		}
		s.retry(h, "whdv_01jcq3v5w8z9d6y4k2m7n0p1rt", nil).want(404)
		s.retry(hook{ID: "wh_01jcq3v5w8z9d6y4k2m7n0p1rt"}, again.ID, nil).want(404)
	})
}

// endsAs waits until a delivery has ended, and fails unless it has done so in that way.
func (s *steward) endsAs(h hook, deliveryID, status string) {
	s.t.Helper()
	waittest.True(s.t, "the end of "+deliveryID, func() bool {
		all := s.deliveries(h, "")
		d := all[slices.IndexFunc(all, func(d delivery) bool { return d.ID == deliveryID })]
		if d.Status != "pending" && d.Status != status {
			s.t.Fatalf("it ended as %s: %s", d.Status, text(d.Error))
		}
		return d.Status == status
	})
}

func TestWebhookDeleteTakesAll(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h, other := newSink(t), s.hook("orders"), s.hook("others")
		k.status("/broken", 500)
		id, _ := s.destination(h, k.URL+"/broken")
		kept, _ := s.destination(other, k.URL+"/kept")
		receiptID := s.ingest(h, "x")
		s.ingest(other, "y")
		failed := s.ended(h, id)[0]
		s.ended(other, kept)
		s.call("DELETE", "/webhook/destination-delete/"+other.ID+"/"+id, nil).want(404) // the other webhook's
		s.call("DELETE", "/webhook/delete/"+h.ID, nil).want(204)
		for _, path := range []string{
			"get/" + h.ID, "destination-list/" + h.ID, "receipt-list/" + h.ID, "delivery-list/" + h.ID,
			"receipt-get/" + h.ID + "/" + receiptID, "receipt-payload/" + h.ID + "/" + receiptID,
		} {
			s.call("GET", "/webhook/"+path, nil).want(404)
		}
		s.retry(h, failed.ID, nil).want(404)
		s.call("DELETE", "/webhook/delete/"+h.ID, nil).want(404)
		s.refused(h.path)
		var list []hook
		s.call("GET", "/webhook/list", nil).want(200).into(&list)
		if len(list) != 1 || list[0].ID != other.ID || len(s.receipts(other)) != 1 || len(s.deliveries(other, "")) != 1 {
			t.Errorf("the other webhook has lost something: %+v", list)
		}
		if sums := s.sums(""); sums != (sum{2, 1, 1}) {
			t.Errorf("the counts are %+v: those of the deleted webhook must stay", sums)
		}
	})
}

// second makes another organization, which the API has no route for, and gives the installation with its key.
func (s *steward) second() *steward {
	s.t.Helper()
	s.stop() // a SQLite file has one process
	ctx := context.Background()
	d, err := db.Open(ctx, db.Options{Path: filepath.Join(s.Dir, "steward.db"), URL: s.Database})
	s.must(err)
	accounts, keys := &account.Store{DB: d, Now: time.Now}, &apikey.Store{DB: d, Now: time.Now}
	value := apikey.NewValue()
	s.must(d.Write(ctx, func(tx *db.Tx) error {
		first, err := accounts.MakeFirst(tx, "", "")
		if err != nil {
			return err
		}
		return keys.MakeRoot(tx, first.OrgID, first.UserID, value)
	}))
	s.must(d.Close())
	s.run()
	return s.as(value)
}

// TestWebhookOrganizations: what belongs to one organization does not exist for another.
func TestWebhookOrganizations(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		stranger := s.second()
		k, h := newSink(t), s.hook("orders")
		k.status("/broken", 500)
		id, _ := s.destination(h, k.URL+"/broken")
		receiptID := s.ingest(h, "x")
		failed := s.ended(h, id)[0]
		config := map[string]any{"type": "url", "config": map[string]any{"url": k.URL}}
		for path, body := range map[string]any{
			"GET get/" + h.ID: nil, "PUT update/" + h.ID: map[string]any{"name": "mine"}, "DELETE delete/" + h.ID: nil,
			"POST rotate-url/" + h.ID: nil, "POST destination-create/" + h.ID: config, "GET destination-list/" + h.ID: nil,
			"PUT destination-update/" + h.ID + "/" + id: config, "DELETE destination-delete/" + h.ID + "/" + id: nil,
			"GET receipt-list/" + h.ID: nil, "GET receipt-get/" + h.ID + "/" + receiptID: nil,
			"GET receipt-payload/" + h.ID + "/" + receiptID: nil, "GET delivery-list/" + h.ID: nil,
			"POST delivery-retry/" + h.ID + "/" + failed.ID: nil,
		} {
			method, path, _ := strings.Cut(path, " ")
			a := stranger.call(method, "/webhook/"+path, body)
			if a.status != 404 {
				t.Errorf("%s %s: %d %s", method, path, a.status, a.body)
			}
		}
		own := stranger.hook("own")
		stranger.ingest(own, "y")
		// What is another's is not reached through one's own webhook either.
		stranger.call("GET", "/webhook/receipt-get/"+own.ID+"/"+receiptID, nil).want(404)
		stranger.call("GET", "/webhook/receipt-payload/"+own.ID+"/"+receiptID, nil).want(404)
		stranger.retry(own, failed.ID, nil).want(404)
		if got := stranger.deliveries(own, "destinationId="+id); len(got) != 0 {
			t.Errorf("a foreign filter finds %+v", got)
		}
		for viewer, want := range map[*steward]hook{s: h, stranger: own} {
			var list []hook
			viewer.call("GET", "/webhook/list", nil).want(200).into(&list)
			if len(list) != 1 || list[0].ID != want.ID {
				t.Errorf("the list is %+v, want %s", list, want.ID)
			}
			if sums := viewer.sums(""); sums.Received != 1 {
				t.Errorf("the counts are %+v", sums)
			}
		}
	})
}

// sum is what analytics count.
type sum struct {
	Received  int `json:"total_received"`
	Delivered int `json:"total_delivered"`
	Failed    int `json:"total_failed"`
}

func (s *steward) sums(query string) sum {
	s.t.Helper()
	var a struct{ Summary sum }
	s.call("GET", "/webhook/analytics/org?"+query, nil).want(200).into(&a)
	return a.Summary
}

// series adds up a time series and gives the number of its buckets, too.
func (s *steward) series(query string) (all sum, buckets int) {
	s.t.Helper()
	var a struct {
		Series []struct {
			Timestamp                   time.Time
			Received, Delivered, Failed int
		}
	}
	s.call("GET", "/webhook/analytics/org/timeseries?"+query, nil).want(200).into(&a)
	for _, b := range a.Series {
		all.Received += b.Received
		all.Delivered += b.Delivered
		all.Failed += b.Failed
	}
	return all, len(a.Series)
}

// TestWebhookLists sends some events, and compares filters, pages and counts with what was sent.
func TestWebhookLists(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h := newSink(t), s.hook("orders")
		k.status("/bad", 500)
		good, _ := s.destination(h, k.URL+"/good")
		bad, _ := s.destination(h, k.URL+"/bad", "max_retries", 0)
		var ids []string
		for i := range 15 {
			ids = append(ids, s.ingest(h, fmt.Sprint(i)))
		}
		middle := s.receipt(h, ids[14]).Date.Add(time.Millisecond) // ids and times have milliseconds
		waittest.True(t, "the next millisecond", func() bool { return time.Now().After(middle.Add(time.Millisecond)) })
		for i := range 10 {
			ids = append(ids, s.ingest(h, fmt.Sprint(i)))
		}
		s.allEnd(map[string]hook{"": h})
		at := url.QueryEscape(middle.Format(time.RFC3339Nano))
		for query, want := range map[string]int{
			"": 50, "status=success": 25, "status=failed": 25, "status=pending": 0, "destinationId=" + good: 25, "destinationId=" + bad: 25,
			"destinationId=" + good + "&status=failed": 0, "receiptId=" + ids[3]: 2, "receiptId=" + ids[3] + "&status=failed": 1,
			"since=" + at: 20, "until=" + at: 30, "since=" + at + "&status=failed": 10, "destinationId=whds_01jcq3v5w8z9d6y4k2m7n0p1rt": 0,
		} {
			got := s.deliveries(h, query)
			if total := s.total("/webhook/delivery-list/" + h.ID + "?" + query); len(got) != want || total != fmt.Sprint(want) {
				t.Errorf("?%s gives %d of %s deliveries, want %d", query, len(got), total, want)
			}
		}
		for query, want := range map[string]string{"since=" + at: "10", "until=" + at: "15", "since=" + at + "&until=" + at: "0"} {
			if total := s.total("/webhook/receipt-list/" + h.ID + "?" + query); total != want {
				t.Errorf("?%s gives %s receipts, want %s", query, total, want)
			}
		}
		s.call("GET", "/webhook/delivery-list/"+h.ID+"?status=lost", nil).want(422)
		s.call("GET", "/webhook/delivery-list/"+h.ID+"?since=yesterday", nil).want(422)
		s.sumsAre(sum{25, 25, 25})
		slices.Reverse(ids)
		more := func() { s.ingest(h, "while somebody reads") }
		if got := s.pages("/webhook/receipt-list/"+h.ID+"?limit=7", more); !slices.Equal(got, ids) {
			t.Errorf("the pages hold %d of %d receipts: %v", len(got), len(ids), got)
		}
		if got := s.pages("/webhook/delivery-list/"+h.ID+"?limit=4&destinationId="+bad, more); len(got) != 25+4 || len(unique(got)) != len(got) {
			t.Errorf("the pages hold %d of 29 deliveries: %v", len(got), got)
		}
	})
}

// sumsAre compares all forms of the analytics.
func (s *steward) sumsAre(want sum) {
	s.t.Helper()
	now := time.Now().UTC()
	start, end := now.Add(-2*time.Hour).Format(time.RFC3339), now.Add(time.Minute).Format(time.RFC3339)
	for _, query := range []string{
		"", "granularity=day", "granularity=minute", "start=" + start, "start=" + start + "&end=" + end + "&granularity=minute",
	} {
		if got := s.sums(query); got != want {
			s.t.Errorf("?%s: the sums are %+v, want %+v", query, got, want)
		}
		if got, buckets := s.series(query); got != want || buckets == 0 {
			s.t.Errorf("?%s: %d buckets of %+v, want %+v", query, buckets, got, want)
		}
	}
	if _, buckets := s.series(""); buckets < 24 || buckets > 25 {
		s.t.Errorf("a day has %d hours", buckets)
	}
	if got := s.sums("end=" + start); got != (sum{}) {
		s.t.Errorf("before anything was sent: %+v", got)
	}
	s.call("GET", "/webhook/analytics/org/timeseries?granularity=minute&start="+now.AddDate(-1, 0, 0).Format(time.RFC3339), nil).want(422)
}

func unique(ids []string) []string {
	ids = slices.Sorted(slices.Values(ids))
	return slices.Compact(ids)
}

// pages follows the next links and gives the ids of all entries. What happens after each page must not shift the others.
func (s *steward) pages(path string, meanwhile func()) (ids []string) {
	s.t.Helper()
	for ; path != ""; meanwhile() {
		a := s.call("GET", path, nil).want(200)
		var some []struct{ ID string }
		a.into(&some)
		for _, entry := range some {
			ids = append(ids, entry.ID)
		}
		path = nextPage(a)
	}
	return ids
}

// TestWebhookSystem: a system webhook is not a user's to change, but takes further destinations.
func TestWebhookSystem(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		made := s.call("POST", "/webhook/create", map[string]any{"name": "system", "internal": true}).want(201)
		h := hook{ID: made.text("id")}
		if made.get("internal") != true {
			t.Errorf("made %s", made.body)
		}
		s.call("PUT", "/webhook/update/"+h.ID, map[string]any{"name": "mine"}).want(403)
		s.call("DELETE", "/webhook/delete/"+h.ID, nil).want(403)
		id, _ := s.destination(h, "http://127.0.0.1:9/")
		s.call("DELETE", "/webhook/destination-delete/"+h.ID+"/"+id, nil).want(204)
	})
}

// TestWebhookEgress: addresses inside are refused before anything is sent to them, and the delivery says why. Loopback is open, since this
// installation listens on loopback only.
func TestWebhookEgress(t *testing.T) {
	t.Parallel()
	refused := []string{
		"10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "169.254.1.1", "0.0.0.0", "224.0.0.1", "192.0.2.1",
		"255.255.255.255", "[fd00:ec2::254]", "[fe80::1]", "[fc00::1]", "[::ffff:10.0.0.1]", "[64:ff9b::a9fe:a9fe]", "[::ffff:169.254.169.254]",
	}
	each(t, func(t *testing.T, s *steward) { s.egress(refused) })
	t.Run("everything is open", func(t *testing.T) {
		s := prepare(t, "sqlite")
		s.Env = []string{"STEWARD_EGRESS_ALLOW=0.0.0.0/0,::/0"}
		s.run()
		s.egress([]string{"169.254.169.254", "[fd00:ec2::254]", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]"}) // metadata never is
	})
}

func (s *steward) egress(refused []string) {
	s.t.Helper()
	k, h := newSink(s.t), s.hook("orders")
	inside := map[string]string{}
	for _, host := range refused {
		inside[host], _ = s.destination(h, "http://"+host+":9/", "max_retries", 0)
	}
	s.destination(h, k.URL+"/number")
	s.destination(h, strings.Replace(k.URL, "127.0.0.1", "localhost", 1)+"/name")
	s.ingest(h, "x")
	k.await("/number", 1)
	k.await("/name", 1)
	for host, id := range inside {
		d := s.ended(h, id)[0]
		if d.Status != "failed" || d.Response != nil || !strings.Contains(text(d.Error), "not allowed") {
			s.t.Errorf("%s: %s, %s", host, d.Status, text(d.Error))
		}
	}
}

package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/budget"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/waittest"
	"steward/internal/webhook/webhooktest"
)

func (h *fixture) receipts(w Webhook) []Receipt {
	h.t.Helper()
	result, err := h.store.Receipts(as(alice), "org_a", w.ID, ReceiptFilter{}, page.Paging{Limit: 1000})
	must(h.t, err)
	return result.Items
}

func TestIngestBodies(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, path := h.webhook(alice)
		large := strings.Repeat("x", 1<<20)
		for name, test := range map[string]struct{ body, payload, encoding string }{
			"json":         {`{"b": 12345678901234567890, "a": [1, null]}`, `{"b":12345678901234567890,"a":[1,null]}`, ""},
			"text":         {"hello \"you\"", `"hello \"you\""`, ""},
			"form":         {"a=1&b=2", `"a=1&b=2"`, ""},
			"binary":       {"\xff\x00\x01", `"/wAB"`, "base64"},
			"nul":          {"a\x00b", `"a\u0000b"`, ""},
			"empty":        {"", `""`, ""},
			"exactly 1 MB": {large, `"` + large + `"`, ""},
		} {
			t.Run(name, func(t *testing.T) {
				r := httptest.NewRequest("PUT", path+"?q=1&r=%ff", strings.NewReader(test.body))
				r.Header.Set("Content-Type", "application/x-"+name[:3])
				r.Header.Add("X-Two", "a")
				r.Header.Add("X-Two", "b")
				r.Header.Set("X-Latin", "caf\xe9")
				rec := h.request(r)
				var answer struct{ ID string }
				must(t, json.Unmarshal(rec.Body.Bytes(), &answer))
				if rec.Code != 200 {
					t.Fatalf("status %d: %s", rec.Code, rec.Body)
				}
				got, err := h.http.Receipt(as(alice), &ReceiptPath{Path{w.ID}, answer.ID})
				must(t, err)
				if string(got.Payload) != test.payload || got.Encoding != test.encoding || got.Size != int64(len(test.body)) {
					t.Errorf("payload %.100s, encoding %q, size %d", got.Payload, got.Encoding, got.Size)
				}
				if got.Method != "PUT" || got.Query != "q=1&r=%ff" || got.ContentType != "application/x-"+name[:3] ||
					got.Headers["x-two"] != "a, b" || got.Headers["x-latin"] != "caf\uFFFD" {
					t.Errorf("method %s, query %s, headers %v", got.Method, got.Query, got.Headers)
				}
				raw, err := h.http.Payload(as(alice), &ReceiptPath{Path{w.ID}, answer.ID})
				must(t, err)
				if string(raw.Bytes) != test.body || raw.ContentType != "application/octet-stream" { // a browser must not run them
					t.Errorf("the raw bytes differ, or are %s", raw.ContentType)
				}
			})
		}
	})
}

// unsized hides the length of a body, so that it counts as chunked.
type unsized struct{ io.Reader }

func TestIngestTooLarge(t *testing.T) {
	h := newFixture(t, dbtest.Open(t, db.SQLite))
	w, path := h.webhook(alice)
	over := strings.Repeat("x", 1<<20+1)
	sized := h.post(path, over)
	r := httptest.NewRequest("POST", path, unsized{strings.NewReader(over)})
	r.ContentLength = -1
	chunked := h.request(r)
	for _, rec := range []*httptest.ResponseRecorder{sized, chunked} {
		if rec.Code != 413 || !strings.Contains(rec.Body.String(), `"too_large"`) {
			t.Errorf("status %d: %s", rec.Code, rec.Body)
		}
	}
	r = httptest.NewRequest("POST", path, unsized{io.MultiReader(strings.NewReader("half"), failing{})})
	r.ContentLength = -1
	if rec := h.request(r); rec.Code != 400 {
		t.Errorf("a broken body got %d", rec.Code)
	}
	if n := len(h.receipts(w)); n != 0 {
		t.Errorf("%d receipts were stored", n)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestIngestRefusals(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, path := h.webhook(alice)
		if rec := h.post(path, "x"); rec.Code != 200 {
			t.Fatalf("status %d", rec.Code)
		}
		wrongToken, wrongHook := h.post(path[:len(path)-1]+"_", "x"), h.post("/in/wh_none/"+path[len(path)-tokenSize:], "x")
		if wrongToken.Code != 404 || wrongToken.Body.String() != wrongHook.Body.String() {
			t.Errorf("answers differ: %s %s", wrongToken.Body, wrongHook.Body)
		}
		if rec := h.request(httptest.NewRequest("OPTIONS", path, nil)); rec.Code != 405 || rec.Header().Get("Allow") == "" {
			t.Errorf("OPTIONS got %d", rec.Code)
		}
		for _, method := range []string{"GET", "HEAD", "DELETE", "PATCH", "PURGE"} {
			if rec := h.request(httptest.NewRequest(method, path, nil)); rec.Code != 200 {
				t.Errorf("%s got %d", method, rec.Code)
			}
		}
		_, token, err := h.store.Rotate(as(alice), "org_a", w.ID, page.IfMatch{})
		must(t, err)
		if rec := h.post(path, "x"); rec.Code != 404 {
			t.Errorf("the old token got %d", rec.Code)
		}
		path = "/in/" + w.ID + "/" + token
		if rec := h.post(path, "x"); rec.Code != 200 {
			t.Errorf("the new token got %d", rec.Code)
		}
		must(t, h.store.Delete(as(alice), "org_a", w.ID, page.IfMatch{}))
		if rec := h.post(path, "x"); rec.Code != 404 {
			t.Errorf("a deleted webhook got %d", rec.Code)
		}
	})
}

// TestIngestRace deletes the webhook between the check of the token and the write.
func TestIngestRace(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		other, _ := h.webhook(alice)
		must(t, h.store.Delete(as(alice), "org_a", w.ID, page.IfMatch{}))
		var batch []*arrival
		for _, id := range []string{w.ID, other.ID} {
			batch = append(batch, &arrival{receipt: &Receipt{WebhookID: id, Method: "POST", orgID: "org_a", headerText: "{}"}})
		}
		must(t, h.store.acceptNow(batch))
		if batch[0].err == nil || batch[1].err != nil {
			t.Errorf("errors %v, %v", batch[0].err, batch[1].err)
		}
		if n := len(h.receipts(other)); n != 1 {
			t.Errorf("%d receipts", n)
		}
	})
}

// TestPoison has receipts that the database refuses; those that arrive with them are stored.
func TestPoison(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		h.destination(alice, w.ID, `{"url": "http://127.0.0.1:1"}`)
		var all sync.WaitGroup
		for i := range 60 {
			method := []string{"GET", "bad\x00", "PUT"}[i%3]
			all.Go(func() {
				err := h.store.Accept(t.Context(), &arrival{receipt: &Receipt{WebhookID: w.ID, Method: method, orgID: "org_a", headerText: "{}"}})
				if (err != nil) != (i%3 == 1) {
					t.Errorf("%q: %v", method, err)
				}
			})
		}
		all.Wait()
		if n := len(h.receipts(w)); n != 40 {
			t.Errorf("%d receipts", n)
		}
		webhooktest.SumsHold(t, h.db, "org_a")
	})
}

// TestStalledSendersTakeTheirShareOnly has clients of one organization send all but the last byte of
// large bodies, more than there is memory for.
func TestStalledSendersTakeTheirShareOnly(t *testing.T) {
	h := newFixture(t, dbtest.Open(t, db.SQLite))
	h.ingest = NewIngest(h.store, 1<<20, 16<<20)
	h.mux = http.NewServeMux()
	h.mux.Handle("/in/{id}/{token}", h.ingest)
	server := httptest.NewServer(h.mux)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	_, hostile := h.webhook(alice)
	_, other := h.webhook(alice)
	_, victim := h.webhook(bob)
	for n := int64(1); h.ingest.Memory.Usage().Refused == 0; n++ {
		h.stall(server, hostile, 1<<20)
		waittest.True(t, "a request to be read or refused", func() bool {
			u := h.ingest.Memory.Usage()
			return u.Refused > 0 || u.Common+u.Reserve > n<<20
		})
	}
	refused := h.post(hostile, strings.Repeat("x", 1<<20))
	if refused.Code != 503 || refused.Header().Get("Retry-After") == "" {
		t.Errorf("the organization that has used up its share: status %d, headers %v", refused.Code, refused.Header())
	}
	large := strings.Repeat("x", 1<<20)
	for name, path := range map[string]string{"another organization": victim, "another webhook": other} {
		if rec := h.post(path, large); rec.Code != 200 {
			t.Errorf("%s: status %d: %s", name, rec.Code, rec.Body)
		}
	}
	server.CloseClientConnections()
	waittest.True(t, "the memory to be released", func() bool { return h.ingest.Memory.Usage().Owners == 0 })
}

// TestSendersAreChargedForWhatArrived has clients announce large bodies and send one byte.
func TestSendersAreChargedForWhatArrived(t *testing.T) {
	h := newFixture(t, dbtest.Open(t, db.SQLite))
	_, path := h.webhook(alice)
	server := httptest.NewServer(h.mux)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	for range 100 {
		h.stall(server, path, 2)
	}
	const each = budget.RequestBytes + 5<<10
	waittest.True(t, "the requests to arrive", func() bool { return h.ingest.Memory.Usage().Common >= 100*budget.RequestBytes })
	if u := h.ingest.Memory.Usage(); u.Common > 100*each || u.Refused > 0 {
		t.Errorf("%+v", u)
	}
}

// stall begins a request with a body of 1 MiB and leaves out what follows its first bytes.
func (h *fixture) stall(server *httptest.Server, path string, size int) {
	h.t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	must(h.t, err)
	h.t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", path, 1<<20)
	must(h.t, err)
	_, _ = io.WriteString(conn, strings.Repeat("x", size-1)) // fails if the request is refused
}

func TestMemoryOfRequestsIsReleased(t *testing.T) {
	h := newFixture(t, dbtest.Open(t, db.SQLite))
	_, path := h.webhook(alice)
	for _, body := range []string{"", "stored", strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<20+1)} {
		h.post(path, body)
		if u := h.ingest.Memory.Usage(); u.Common+u.Reserve != 0 {
			t.Errorf("after %d bytes: %+v", len(body), u)
		}
	}
}

// TestLargePayloadsInLists shows that a list leaves large payloads out, and the SDK face sends
// strings as base64.
func TestLargePayloadsInLists(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		h.accept(w, alice, strings.Repeat("x", 64<<10), strings.Repeat("x", 64<<10+1), "text", `{"a":1}`, "\xff")
		list := h.receipts(w)
		for i, r := range list {
			if omitted := i == 3; r.Omitted != omitted || (string(r.Payload) == "null") != omitted {
				t.Errorf("receipt %d: omitted %v, payload %.20s", i, r.Omitted, r.Payload)
			}
		}
		items := Receipts{Page: page.Page[Receipt]{Items: list}}.SDK().(page.Page[Receipt]).Items
		for i, want := range []string{`"/w=="`, `{"a":1}`, `"dGV4dA=="`, `null`} {
			if got := items[i].Payload; !bytes.Equal(got, []byte(want)) {
				t.Errorf("SDK payload %d: %.40s, want %s", i, got, want)
			}
		}
	})
}

// TestOthersChangesHoldAtOnce: what another replica has done with destinations holds for the very
// next receipt.
func TestOthersChangesHoldAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		other := *h
		other.store = sameStore(h.store, "rep_2")
		w, _ := h.webhook(alice)
		wants := func(what string, n int) {
			t.Helper()
			h.accept(w, alice, what)
			now := stamp.Of(h.clock.now())
			if made := len(h.deliveries(alice, w.ID, Filter{Since: &now})); made != n {
				t.Errorf("%s: %d deliveries, want %d", what, made, n)
			}
			h.clock.advance(time.Second)
		}
		wants("no destination", 0)
		to := other.destination(alice, w.ID, `{"url": "http://127.0.0.1:1"}`)
		wants("one", 1)
		off := config(t, `{"url": "http://127.0.0.1:1", "disabled": true}`)
		_, err := other.store.UpdateDestination(as(alice), DestinationRef{"org_a", w.ID, to.ID}, &off, page.IfMatch{})
		must(t, err)
		wants("disabled", 0)
		other.destination(alice, w.ID, `{"url": "http://127.0.0.1:2"}`)
		second := other.destination(alice, w.ID, `{"url": "http://127.0.0.1:3"}`)
		wants("two", 2)
		must(t, other.store.DeleteDestination(as(alice), DestinationRef{"org_a", w.ID, second.ID}, page.IfMatch{}))
		wants("one again", 1)
		must(t, other.store.Delete(as(alice), "org_a", w.ID, page.IfMatch{}))
		gone := &arrival{receipt: &Receipt{WebhookID: w.ID, Method: "POST", orgID: "org_a", headerText: "{}"}}
		must(t, h.store.acceptNow([]*arrival{gone}))
		mustBe(t, gone.err, errs.NotFound)
	})
}

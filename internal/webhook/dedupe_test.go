package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/webhook/send"
)

// deduped makes a webhook that recognizes repeated requests.
func (h *fixture) deduped(d Dedupe) (w Webhook, path string) {
	h.t.Helper()
	w, err := h.http.Create(as(alice), &createIn{NewWebhook{Name: "orders", Dedupe: page.Some(d)}})
	must(h.t, err)
	return w, strings.TrimPrefix(w.URL, "http://steward.test")
}

// postEvent sends a body with a header x-event-id, unless that is "". It returns the receipt's id, and
// whether it is marked as repeated.
func (h *fixture) postEvent(path, body, eventID string) (receiptID string, repeated bool) {
	h.t.Helper()
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	if eventID != "" {
		r.Header.Set("X-Event-Id", eventID)
	}
	rec := h.request(r)
	if rec.Code != 200 {
		h.t.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
	var answer struct{ ID string }
	must(h.t, json.Unmarshal(rec.Body.Bytes(), &answer))
	return answer.ID, rec.Header().Get("Steward-Duplicate") == "true"
}

func (h *fixture) wantNew(path, body, eventID string) (receiptID string) {
	h.t.Helper()
	receiptID, repeated := h.postEvent(path, body, eventID)
	if repeated {
		h.t.Errorf("%s %q repeats %s", body, eventID, receiptID)
	}
	return receiptID
}

func (h *fixture) wantRepeated(path, body, eventID, first string) {
	h.t.Helper()
	if got, repeated := h.postEvent(path, body, eventID); got != first || !repeated {
		h.t.Errorf("%s %q: %s, repeated %v; want a repetition of %s", body, eventID, got, repeated, first)
	}
}

func (h *fixture) count(table string) (n int) {
	h.t.Helper()
	must(h.t, h.db.Read(context.Background()).Row(`SELECT count(*) FROM `+table).Scan(&n))
	return n
}

func TestRepeatedRequestsAreNotStored(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, path := h.deduped(Dedupe{By: "header", Header: "X-Event-ID", Window: 60})
		h.destination(alice, w.ID, `{"url": "http://a.test"}`)
		h.destination(alice, w.ID, `{"url": "http://b.test", "filter": {"body": 1}}`)
		first := h.wantNew(path, "1", "a")
		h.wantRepeated(path, "2", "a", first)
		h.wantNew(path, "3", "b")
		h.wantNew(path, "4", "") // without a key
		h.wantNew(path, "5", "")
		wantStates(t, h, w, "5 1/1", "4 1/1", "3 1/1", "1 2/0")
		if n := h.count("webhook_dedupe"); n != 2 {
			t.Errorf("%d keys, want 2", n)
		}

		h.clock.advance(59 * time.Second)
		h.wantRepeated(path, "6", "a", first)
		h.clock.advance(time.Second) // counted from the first request
		second := h.wantNew(path, "7", "a")
		h.wantRepeated(path, "8", "a", second)

		// Another webhook has keys of its own.
		_, otherPath := h.deduped(Dedupe{By: "header", Header: "X-Event-ID"})
		h.wantNew(otherPath, "9", "a")

		got, err := h.get(alice, w.ID)
		must(t, err)
		if got.Dedupe == nil || *got.Dedupe != (Dedupe{By: "header", Header: "X-Event-ID", Window: 60}) {
			t.Errorf("shown: %+v", got.Dedupe)
		}
	})
}

func TestRequestIsNewOnceTheFirstReceiptIsGone(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, path := h.deduped(Dedupe{By: "body"})
		first := h.wantNew(path, "x", "")
		h.wantRepeated(path, "x", "", first)
		h.clock.advance(2 * time.Hour)
		retention := &Retention{Store: h.store, Keep: time.Hour}
		must(t, retention.Run(t.Context()))
		second := h.wantNew(path, "x", "")
		h.wantRepeated(path, "x", "", second)
		if n := len(h.receipts(w)); n != 1 {
			t.Errorf("%d receipts, want 1", n)
		}
	})
}

// TestBatchWithTheSameKeyTwice has a key twice in one transaction, new and known.
func TestBatchWithTheSameKeyTwice(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.deduped(Dedupe{By: "body"})
		var batch []*arrival
		for _, key := range []string{"new", "other", "new", "", ""} {
			a := &arrival{receipt: textReceipt(w, alice, "x"), dedupeFor: time.Hour}
			if key != "" {
				a.dedupeKey = bare(w.ID) + key
			}
			batch = append(batch, a)
		}
		want := func(duplicates ...bool) {
			t.Helper()
			for i, a := range batch {
				must(t, a.err)
				if a.isDuplicate != duplicates[i] {
					t.Errorf("%d: duplicate is %v", i, a.isDuplicate)
				}
			}
			if batch[0].receipt.ID != batch[2].receipt.ID || batch[0].receipt.ID == batch[1].receipt.ID || batch[3].receipt.ID == batch[4].receipt.ID {
				t.Errorf("ids %s %s %s", batch[0].receipt.ID, batch[1].receipt.ID, batch[2].receipt.ID)
			}
		}
		must(t, h.store.acceptNow(batch))
		want(false, false, true, false, false)
		first := batch[0].receipt.ID
		must(t, h.store.acceptNow(batch))
		want(true, true, true, false, false)
		if batch[0].receipt.ID != first || len(h.receipts(w)) != 6 {
			t.Errorf("%d receipts, %s repeats %s", len(h.receipts(w)), batch[0].receipt.ID, first)
		}
	})
}

// TestDedupeIsExactOverReplicas has two processes accept the same keys at once, in batches of different
// orders. Some of the keys have expired or lost their receipts before.
func TestDedupeIsExactOverReplicas(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.deduped(Dedupe{By: "body"})
		const keys, senders, rounds = 20, 4, 5
		batchOf := func(order []int) (batch []*arrival) {
			for _, i := range order {
				batch = append(batch, &arrival{
					receipt: textReceipt(w, alice, fmt.Sprint(i)), dedupeKey: fmt.Sprintf("%s%02d", bare(w.ID), i), dedupeFor: time.Hour,
				})
			}
			return batch
		}
		stores := []*Store{h.store, sameStore(h.store, "rep_2")}
		for round := range rounds {
			var mu sync.Mutex
			stored := map[string]map[string]bool{}
			fresh := 0
			var sending sync.WaitGroup
			for i := range senders {
				batch := batchOf(rand.Perm(keys))
				sending.Go(func() {
					if err := stores[i%2].acceptNow(batch); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					for _, a := range batch {
						if stored[a.dedupeKey] == nil {
							stored[a.dedupeKey] = map[string]bool{}
						}
						stored[a.dedupeKey][a.receipt.ID] = true
						if !a.isDuplicate {
							fresh++
						}
					}
				})
			}
			sending.Wait()
			for key, ids := range stored {
				if len(ids) != 1 {
					t.Errorf("round %d: %s has %d receipts", round, key, len(ids))
				}
			}
			if fresh != keys || len(h.receipts(w)) != keys {
				t.Errorf("round %d: %d are new and %d stored, want %d", round, fresh, len(h.receipts(w)), keys)
			}
			must(t, d.Write(t.Context(), func(tx *db.Tx) error { // what follows is new, one way or the other
				if round%2 == 0 {
					h.clock.advance(time.Hour)
				}
				_, err := tx.Exec(`DELETE FROM webhook_receipts`)
				return err
			}))
		}
	})
}

// TestUnverifiedRequestsMakeNoKeys: otherwise anybody could have an event dropped that is still to come.
func TestUnverifiedRequestsMakeNoKeys(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, err := h.http.Create(as(alice), &createIn{NewWebhook{
			Name: "orders", Verification: page.Some(*githubSettings("s")), Dedupe: page.Some(Dedupe{By: "body"}),
		}})
		must(t, err)
		path := strings.TrimPrefix(w.URL, "http://steward.test")
		wantStatus(t, h.postSigned(path, "x", "wrong"), 401)
		if n := h.count("webhook_dedupe"); n != 0 {
			t.Fatalf("%d keys", n)
		}
		rec := h.postSigned(path, "x", "s")
		wantStatus(t, rec, 200)
		if rec.Header().Get("Steward-Duplicate") != "" {
			t.Error("the first verified request is taken for a repetition")
		}
		again := h.postSigned(path, "x", "s")
		if again.Header().Get("Steward-Duplicate") != "true" || again.Body.String() != rec.Body.String() {
			t.Errorf("%v %s", again.Header(), again.Body)
		}
	})
}

func TestDedupeKeys(t *testing.T) {
	receipt := func(body string) *Receipt { return &Receipt{WebhookID: "wh_1", body: []byte(body)} }
	key := func(d Dedupe, body string, headers map[string]string) string {
		text, err := json.Marshal(d)
		must(t, err)
		s := string(text)
		made, err := newDeduper(&s)
		must(t, err)
		return made.key(receipt(body), send.FieldsOf(headers))
	}
	byPath := func(path string) Dedupe { return Dedupe{By: "path", Path: path} }
	for _, c := range []struct {
		name string
		d    Dedupe
		a, b string
		same bool
	}{
		{"the same value", byPath("id"), `{"id": "a", "n": 1}`, `{"n": 2, "id": "a"}`, true},
		{"escapes", byPath("$.id"), `{"id": "a"}`, `{"id": "\u0061"}`, true},
		{"another value", byPath("id"), `{"id": "a"}`, `{"id": "b"}`, false},
		{"number and text", byPath("id"), `{"id": 1}`, `{"id": "1"}`, false},
		{"deeper", byPath("$.data.items[1].id"), `{"data": {"items": [{}, {"id": 7}]}}`, `{"data": {"items": [0, {"id": 7, "x": []}, 2]}}`, true},
		{"an index first", byPath("$[0]"), `[true, 1]`, `[true, 2]`, true},
		{"the last of a name", byPath("a.b"), `{"a": {"b": 1}, "a": {"b": 2}}`, `{"a": {"b": 2}}`, true},
		{"body", Dedupe{By: "body"}, `x`, `x`, true},
		{"another body", Dedupe{By: "body"}, `x`, `x `, false},
		{"empty bodies", Dedupe{By: "body"}, ``, ``, true},
	} {
		a, b := key(c.d, c.a, nil), key(c.d, c.b, nil)
		if a == "" || b == "" || (a == b) != c.same {
			t.Errorf("%s: %q and %q", c.name, a, b)
		}
	}
	for _, body := range []string{
		``, `x`, `{}`, `{"id": null}`, `{"id": {"a": 1}}`, `{"id": ["a"]}`, `["id"]`, `"id"`, `{"id": "a"`, `{"id": "a"} x`, `{"id": "a"}{}`,
		`{"id": "a", "id": null}`, `{"id": "\ud800"}x`, strings.Repeat(`[`, 100_000), `{"id": ` + strings.Repeat(`{"id":`, 100_000),
	} {
		if got := key(byPath("id"), body, nil); got != "" {
			t.Errorf("%.40s has the key %s", body, got)
		}
	}
	if key(Dedupe{By: "header", Header: "X-Id"}, "", nil) != "" {
		t.Error("a missing header has a key")
	}
	one := key(Dedupe{By: "header", Header: "X-Id"}, "a", map[string]string{"x-id": strings.Repeat("v", 100_000)})
	if len(one) > 80 || one != key(Dedupe{By: "header", Header: "x-ID"}, "b", map[string]string{"x-id": strings.Repeat("v", 100_000)}) {
		t.Errorf("the key of a header is %s", one)
	}
	if key(Dedupe{By: "header", Header: "X-Other"}, "", map[string]string{"x-other": "v"}) == key(Dedupe{By: "header", Header: "X-Id"}, "", map[string]string{"x-id": "v"}) {
		t.Error("two headers share keys")
	}
}

// TestHostileBodiesMakeKeysInBoundedMemory counts what is allocated in total for bodies of a mebibyte.
func TestHostileBodiesMakeKeysInBoundedMemory(t *testing.T) {
	const n = 1 << 20
	for name, c := range map[string]struct{ path, body string }{
		"elements":     {"$[500000]", "[" + strings.Repeat("1,", n/2-1) + "1]"},
		"arrays":       {"$[349524]", "[" + strings.Repeat("[],", n/3-1) + "1]"},
		"members":      {"$.b", "{" + strings.Repeat(`"a":1,`, n/6-1) + `"b":7}`},
		"the name":     {"$.a", "{" + strings.Repeat(`"a":1,`, n/6-1) + `"a":7}`},
		"nested names": {"$.a.a", "{" + strings.Repeat(`"a":{"a":1},`, n/12-1) + `"a":{"a":7}}`},
		"depth":        {"$.a", `{"a":1,"b":` + strings.Repeat("[", 9_990) + strings.Repeat("]", 9_990) + "}"},
		"too deep":     {"$.a", `{"a":1,"b":` + strings.Repeat("[", n/2) + strings.Repeat("]", n/2) + "}"},
		"text":         {"$.a", `{"a":"` + strings.Repeat(`\u0061`, n/6) + `"}`},
		"digits":       {"$.a", `{"a":` + strings.Repeat("9", n) + `}`},
	} {
		path, err := parsePath(c.path)
		must(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		value := valueAt([]byte(c.body), path)
		runtime.ReadMemStats(&after)
		if total := after.TotalAlloc - before.TotalAlloc; total > 16<<20 {
			t.Errorf("%s: allocated %d MiB in total", name, total>>20)
		}
		if (value == "") != (name == "too deep") {
			t.Errorf("%s: the value is %.40q", name, value)
		}
	}
}

func TestDedupeSettings(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		for text, at := range map[string]string{
			`{}`: "by", `{"by": "x"}`: "by", `{"by": "header"}`: "header", `{"by": "header", "header": "a b"}`: "header",
			`{"by": "body", "header": "x"}`: "header", `{"by": "body", "path": "x"}`: "path", `{"by": "path"}`: "path",
			`{"by": "path", "path": "a..b"}`: "path", `{"by": "path", "path": "$"}`: "path", `{"by": "path", "path": "a[x]"}`: "path",
			`{"by": "path", "path": "a[-1]"}`: "path", `{"by": "path", "path": "a[*]"}`: "path", `{"by": "path", "path": "a[1]b"}`: "path",
			`{"by": "path", "path": "$..a"}`: "path", `{"by": "path", "path": "a[99999999999]"}`: "path",
			`{"by": "path", "path": "` + strings.Repeat("a.", 16) + `a"}`: "path",
			`{"by": "body", "window_seconds": 86401}`:                     "window_seconds", `{"by": "body", "window_seconds": -1}`: "window_seconds",
		} {
			var settings Dedupe
			must(t, json.Unmarshal([]byte(text), &settings))
			_, err := h.http.Create(as(alice), &createIn{NewWebhook{Name: "orders", Dedupe: page.Some(settings)}})
			mustBe(t, err, errs.Invalid)
			if got := errs.Of(err).Faults[0].Location; got != "body.dedupe."+at {
				t.Errorf("%s: the fault is at %s", text, got)
			}
		}

		w, path := h.webhook(alice)
		h.wantNew(path, "x", "")
		h.wantNew(path, "x", "")
		w, err := h.update(alice, w.ID, Patch{Dedupe: page.Some(Dedupe{By: "body"})}, "")
		must(t, err)
		if w.Dedupe == nil || w.Dedupe.Window != maxDedupeFor {
			t.Errorf("after an update: %+v", w.Dedupe)
		}
		first := h.wantNew(path, "x", "")
		h.wantRepeated(path, "x", "", first)
		_, err = h.update(alice, w.ID, Patch{Name: page.Some("renamed")}, "")
		must(t, err)
		h.wantRepeated(path, "x", "", first)
		w, err = h.update(alice, w.ID, Patch{Dedupe: page.FromPtr[Dedupe](nil)}, "")
		must(t, err)
		if w.Dedupe != nil {
			t.Errorf("after its end: %+v", w.Dedupe)
		}
		h.wantNew(path, "x", "")

		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`INSERT INTO processes (id, seen_at, schema) VALUES ('rep_old', $1, $2)`, h.clock.now().UnixMicro(), schemaOfDedupe-1)
			return err
		}))
		_, err = h.update(alice, w.ID, Patch{Dedupe: page.Some(Dedupe{By: "body"})}, "")
		mustBe(t, err, errs.Conflict)
		_, err = h.update(alice, w.ID, Patch{Dedupe: page.FromPtr[Dedupe](nil)}, "")
		must(t, err)
	})
}

func TestExpiredKeysAreRemoved(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, path := h.deduped(Dedupe{By: "body", Window: 60})
		retention := &Retention{Store: h.store, Keep: 30 * 24 * time.Hour}
		var batch []*arrival
		for i := range sweepRows + 10 { // more than one transaction removes
			batch = append(batch, &arrival{receipt: textReceipt(w, alice, "x"), dedupeKey: bare(w.ID) + fmt.Sprint(i), dedupeFor: time.Minute})
		}
		must(t, h.store.acceptNow(batch))
		h.clock.advance(time.Minute)
		h.wantNew(path, "x", "")
		must(t, retention.Run(t.Context()))
		if n := h.count("webhook_dedupe"); n != 1 {
			t.Errorf("%d keys are left, want 1", n)
		}
		must(t, h.store.Delete(as(alice), "org_a", w.ID, page.IfMatch{}))
		must(t, retention.Run(t.Context()))
		if n := h.count("webhook_dedupe"); n != 0 {
			t.Errorf("%d keys are left of a deleted webhook", n)
		}
	})
}

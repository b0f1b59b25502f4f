package webhook

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/encode"
	"steward/internal/stamp"
	"steward/internal/web/webtest"
)

// The same fields without the methods, for encoding/json to write.
type (
	encodedReceipt    Receipt
	encodedDelivery   Delivery
	encodedTimeseries Timeseries
)

var texts = webtest.Texts

// stored are texts that are kept as JSON: ingest and sender clean them before.
var stored = rapid.Map(texts, clean)

var bodies = rapid.OneOf(
	rapid.SliceOf(rapid.Byte()),
	rapid.Map(texts, func(s string) []byte { return []byte(s) }),
	rapid.Map(texts, func(s string) []byte { text, _ := json.Marshal(s); return text }),
	rapid.SampledFrom([][]byte{[]byte(` {"a" : [1, null , "<x> "] }` + "\n"), []byte(`[1,2`), []byte("null"), []byte("0"), []byte("01"), {}}),
)

func jsonOf(t *rapid.T, value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestReceiptsWriteThemselves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Receipt{
			ID: texts.Draw(t, "id"), Date: stamp.Time(rapid.Int64Range(0, 4e15).Draw(t, "date")), WebhookID: texts.Draw(t, "webhook"),
			Headers: rapid.MapOf(stored, stored).Draw(t, "headers"), Method: texts.Draw(t, "method"),
			Query: texts.Draw(t, "query"), RemoteAddr: texts.Draw(t, "address"), ContentType: texts.Draw(t, "type"), body: bodies.Draw(t, "body"),
		}
		r.Size = int64(len(r.body)) + rapid.Int64Range(0, 1).Draw(t, "unread")
		r.headerText = jsonOf(t, r.Headers)
		r = r.show()
		listed := r
		listed.Headers = nil
		webtest.SameJSON(t, listed, encodedReceipt(r))
		webtest.SameJSON(t, listed.forSDK(), encodedReceipt(r.forSDK()))
	})
}

func TestDeliveriesWriteThemselves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Delivery{
			ID: texts.Draw(t, "id"), Date: stamp.Time(rapid.Int64Range(0, 4e15).Draw(t, "date")), WebhookID: texts.Draw(t, "webhook"),
			DestinationID: texts.Draw(t, "destination"), ReceiptID: texts.Draw(t, "receipt"), Status: Status(texts.Draw(t, "status")),
			Retries: rapid.IntRange(0, 20).Draw(t, "retries"), Error: rapid.Ptr(texts, true).Draw(t, "error"),
		}
		if rapid.Bool().Draw(t, "answered") {
			r := Response{
				Status: rapid.IntRange(100, 599).Draw(t, "code"), Headers: rapid.MapOf(stored, stored).Draw(t, "headers"),
				Body: stored.Draw(t, "body"), DurationMS: rapid.Int64Range(0, 60_000).Draw(t, "duration"),
			}
			own := newAnswer(r.Status, fieldsOf(r.Headers), r.Body, time.Duration(r.DurationMS)*time.Millisecond)
			text := Answer(rapid.SampledFrom([]string{string(*own), jsonOf(t, r)}).Draw(t, "text"))
			if want, err := encode.Value(nil, r); err != nil || string(*own) != string(want) {
				t.Fatalf("stored %s, want %s, %v", *own, want, err)
			}
			d.Response = &text
		}
		webtest.SameJSON(t, d, encodedDelivery(d))
	})
}

func TestSeriesWriteThemselves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Count {
			n := rapid.Int64Range(0, 1<<40)
			return Count{Received: n.Draw(t, "received"), Delivered: n.Draw(t, "delivered"), Failed: n.Draw(t, "failed")}
		}), 1, 5).Draw(t, "counts")
		g := rapid.SampledFrom([]Granularity{"minute", "hour", "day"}).Draw(t, "granularity")
		from := rapid.Int64Range(0, 20_000).Draw(t, "from")
		s := span{unit: seconds[g], from: from, to: from + int64(len(counts)), granularity: g}
		series := Timeseries{Period: s.period(), Series: s.series(counts)}
		webtest.SameJSON(t, series, encodedTimeseries(series))
		webtest.SameJSON(t, series.SDK().(encode.Appender), map[string]any{"timeseries": encodedTimeseries(series)})
	})
}

// TestStretches: whatever the period, its stretches are the same seconds, each once, and few buckets.
func TestStretches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom(units).Draw(t, "unit")
		from := rapid.Int64Range(0, 5000).Draw(t, "from")
		to := from + rapid.Int64Range(1, maxBuckets).Draw(t, "buckets")
		covered, buckets := map[int64]int{}, int64(0)
		for _, st := range stretches(unit, from, to) {
			for b := st.from * (st.unit / unit); b < st.to*(st.unit/unit); b++ {
				covered[b]++
			}
			buckets += max(0, st.to-st.from)
		}
		for b := from; b < to; b++ {
			if covered[b] != 1 {
				t.Fatalf("bucket %d is counted %d times", b, covered[b])
			}
		}
		if int64(len(covered)) != to-from || unit < 86400 && buckets > 2*(59+23)+(to-from)*unit/86400+1 {
			t.Fatalf("%d buckets of %d, read from %d", len(covered), to-from, buckets)
		}
	})
}

package webhook

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"steward/internal/encode"
	"steward/internal/stamp"
	"steward/internal/web/webtest"
	"steward/internal/webhook/send"
)

// The same fields without the methods, for encoding/json to write.
type (
	encodedReceipt  Receipt
	encodedDelivery Delivery
)

var texts = webtest.Texts

// stored are texts as they are stored.
var stored = rapid.Map(texts, send.CleanText)

var bodies = rapid.OneOf(
	rapid.SliceOf(rapid.Byte()),
	rapid.Map(texts, func(s string) []byte { return []byte(s) }),
	rapid.Map(texts, func(s string) []byte { text, _ := json.Marshal(s); return text }),
	rapid.SampledFrom([][]byte{[]byte(` {"a" : [1, null , "<x> "] }` + "\n"), []byte(`[1,2`), []byte("null"), []byte("0"), []byte("01"), {}}),
)

func TestReceiptJSONEqualsEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Receipt{
			ID: texts.Draw(t, "id"), Date: stamp.Time(rapid.Int64Range(0, 4e15).Draw(t, "date")), WebhookID: texts.Draw(t, "webhook"),
			Headers: rapid.MapOf(stored, stored).Draw(t, "headers"), Method: texts.Draw(t, "method"),
			Query: texts.Draw(t, "query"), RemoteAddr: texts.Draw(t, "address"), ContentType: texts.Draw(t, "type"), body: bodies.Draw(t, "body"),
		}
		r.Size = int64(len(r.body)) + rapid.Int64Range(0, 1).Draw(t, "unread")
		r.headerText = send.MarshalFields(send.FieldsOf(r.Headers))
		r = r.withPayload()
		listed := r
		listed.Headers = nil
		webtest.SameJSON(t, listed, encodedReceipt(r))
		webtest.SameJSON(t, listed.forSDK(), encodedReceipt(r.forSDK()))
	})
}

func TestPayloadEqualsCompactedJSON(t *testing.T) {
	fixed := []string{
		` {"a" : [1, null , "<x> "], "a": 1e400 }` + "\n", ` "a\u2028\ud800\/" `, `"a" "b"`, `[1,2`, `null`, `01`, `-0.0E+5`, ` `, ``, `{"a":1,}`,
		"\xef\xbb\xbf{}", strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001),
	}
	texts := rapid.OneOf(texts, rapid.SampledFrom(fixed), rapid.StringMatching(`([\[\]{}:," \n\t01.e-]|"a"|null|true){0,12}`))
	rapid.Check(t, func(t *rapid.T) {
		body := texts.Filter(utf8.ValidString).Draw(t, "body")
		var compact bytes.Buffer
		isJSON := json.Compact(&compact, []byte(body)) == nil
		want := compact.String()
		if !isJSON {
			want = string(encode.String(nil, body))
		}
		r := Receipt{Size: int64(len(body)), body: []byte(body)}.withPayload()
		if string(r.Payload) != want {
			t.Fatalf("the payload of %q is %s, want %s", body, r.Payload, want)
		}
		if isJSON && want[0] == '"' && string(r.body) != body {
			t.Fatalf("the body of a JSON string is %q, want %q", r.body, body)
		}
	})
}

func TestDeliveryJSONEqualsEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Delivery{
			ID: texts.Draw(t, "id"), Date: stamp.Time(rapid.Int64Range(0, 4e15).Draw(t, "date")), WebhookID: texts.Draw(t, "webhook"),
			DestinationID: texts.Draw(t, "destination"), ReceiptID: texts.Draw(t, "receipt"), Status: Status(texts.Draw(t, "status")),
			Retries: rapid.IntRange(0, 20).Draw(t, "retries"), Error: rapid.Ptr(texts, true).Draw(t, "error"),
		}
		if rapid.Bool().Draw(t, "answered") {
			text, err := storedResponse(&send.Response{
				Status: rapid.IntRange(100, 599).Draw(t, "code"), Headers: rapid.MapOf(stored, stored).Draw(t, "headers"),
				Body: stored.Draw(t, "body"), DurationMS: rapid.Int64Range(0, 60_000).Draw(t, "duration"),
			})
			if err != nil {
				t.Fatal(err)
			}
			d.Response = new(StoredResponse(text))
		}
		if rapid.Bool().Draw(t, "pending") {
			due := stamp.Time(rapid.Int64Range(0, 4e15).Draw(t, "due"))
			d.DueAt = &due
		}
		if d.Failing = rapid.Bool().Draw(t, "failing"); d.Failing {
			next := stamp.Time(rapid.Int64Range(0, 4e15).Draw(t, "next"))
			d.NextDueAt = &next
		}
		webtest.SameJSON(t, d, encodedDelivery(d))
	})
}

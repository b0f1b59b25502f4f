package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

const mebi = 1 << 20

const (
	jsonBody = `{"b": [1.5, "é"], "n": 12345678901234567890}`
	formType = "application/x-www-form-urlencoded"
)

// bodies are events, with the payload and payload_encoding of their receipts.
var bodies = []struct {
	name, method, contentType, body, payload, encoding string
}{
	{"json", "POST", "application/json", jsonBody, jsonBody, ""},
	{"json without type", "POST", "", ` [1, 2] `, `[1, 2]`, ""},
	{"json null", "POST", "application/json", `null`, `null`, ""},
	{"form", "POST", formType, "a=1&b=%20", `"a=1&b=%20"`, ""},
	{"text", "POST", "text/plain; charset=utf-8", "héllo\nworld", `"héllo\nworld"`, ""},
	{"text with NUL", "POST", "text/plain", "a\x00b", `"a\u0000b"`, ""},
	{"broken json", "POST", "application/json", `{"a": `, `"{\"a\": "`, ""},
	{"binary", "POST", "application/octet-stream", "\xff\xfe\x00\x01", `"//4AAQ=="`, "base64"},
	{"empty", "POST", "", "", `""`, ""},
	{"GET", "GET", "", "", `""`, ""},
	{"PUT", "PUT", "text/plain", "put", `"put"`, ""},
	{"PATCH", "PATCH", "text/plain", "patch", `"patch"`, ""},
	{"DELETE", "DELETE", "text/plain", "delete", `"delete"`, ""},
	{"unknown method", "PURGE", "", "", `""`, ""},
	{"exactly 1 MiB", "POST", "text/plain", strings.Repeat("x", mebi), `"` + strings.Repeat("x", mebi) + `"`, ""},
}

func TestReceiptHasWhatWasSent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		h := s.hook("orders")
		for i, b := range bodies {
			sent, err := s.send(b.method, h.path+"?from=a%20b&x", strings.NewReader(b.body), "Content-Type", b.contentType)
			s.must(err)
			id := sent.want(200).text("id")
			r := s.receipt(h, id)
			if !equalJSON(t, r.Payload, b.payload) || r.Encoding != b.encoding {
				t.Errorf("%s: payload %.200s, encoding %q", b.name, r.Payload, r.Encoding)
			}
			if r.ID != id || r.WebhookID != h.ID || r.Method != b.method || r.Query != "from=a%20b&x" ||
				r.Size != len(b.body) || r.ContentType != b.contentType || !strings.HasPrefix(r.RemoteAddr, "127.0.0.1") {
				r.Payload = nil
				t.Errorf("%s: receipt %+v", b.name, r)
			}
			raw := s.call("GET", "/webhook/receipt-payload/"+h.ID+"/"+id, nil).want(200)
			if string(raw.body) != b.body {
				t.Errorf("%s: the raw payload differs: %.100q", b.name, raw.body)
			}
			if total := s.total("/webhook/receipt-list/" + h.ID + "?limit=1"); total != fmt.Sprint(i+1) {
				t.Errorf("%s: total %s, want %d", b.name, total, i+1)
			}
		}
		for _, r := range s.receipts(h) {
			if large := r.Size > 64<<10; r.Omitted != large || large && string(r.Payload) != "null" {
				t.Errorf("a listed receipt of %d bytes has payload_omitted %v", r.Size, r.Omitted)
			}
		}
	})
}

func equalJSON(t *testing.T, got []byte, want string) bool {
	t.Helper()
	return reflect.DeepEqual(decodeNumbers(t, string(got)), decodeNumbers(t, want))
}

// decodeNumbers decodes JSON and keeps all digits of numbers.
func decodeNumbers(t *testing.T, text string) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %.200s", err, text)
	}
	return v
}

func TestRefusedEventsAreNotStored(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		h := s.hook("orders")
		over := bytes.Repeat([]byte("x"), mebi+1)
		r, err := s.send("POST", h.path, bytes.NewReader(over))
		s.must(err)
		if r.want(413).code() != "too_large" {
			t.Errorf("with Content-Length: %s", r.body)
		}
		r, err = s.send("POST", h.path, io.MultiReader(bytes.NewReader(over))) // of unknown length, so chunked
		s.must(err)
		if r.want(413).code() != "too_large" {
			t.Errorf("chunked: %s", r.body)
		}
		// The response comes before the body, so that a client that waits for it need not send any.
		if status, _ := s.raw("POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n", h.path); status != 413 {
			t.Errorf("a Content-Length over the limit: %d", status)
		}
		for what, rest := range map[string]string{
			"a truncated body": "Content-Length: 10\r\n\r\nshort",
			"truncated chunks": "Transfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
			"invalid chunks":   "Transfer-Encoding: chunked\r\n\r\nzz\r\nshort\r\n0\r\n\r\n",
		} {
			if status, _ := s.raw("POST %s HTTP/1.1\r\nHost: a\r\n%s", h.path, rest); status/100 == 2 {
				t.Errorf("%s: %d", what, status)
			}
		}
		options, err := s.send("OPTIONS", h.path, nil)
		s.must(err)
		if options.want(405).header.Get("Allow") == "" {
			t.Error("405 without Allow")
		}
		if total := s.total("/webhook/receipt-list/" + h.ID); total != "0" || len(s.receipts(h)) != 0 {
			t.Errorf("%s receipts are counted, %d are stored", total, len(s.receipts(h)))
		}
	})
}

func TestReceiptHeadersAreJoinedInLowerCase(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		h := s.hook("orders")
		status, _ := s.raw("POST %s HTTP/1.1\r\nHost: example.com\r\nX-MANY: a\r\nx-many: b\r\nX-Odd: caf\xe9\r\nX-Empty:\r\n"+
			"Content-Type: Text/Plain\r\nContent-Length: 2\r\n\r\nhi", h.path)
		if status != 200 {
			t.Fatalf("got %d", status)
		}
		got := s.receipts(h)[0]
		want := map[string]string{
			"host": "example.com", "x-many": "a, b", "x-odd": "caf\uFFFD", "x-empty": "", "content-type": "Text/Plain",
		}
		for name, value := range want {
			if v, found := got.Headers[name]; !found || v != value {
				t.Errorf("%s is %q, want %q", name, v, value)
			}
		}
		for name := range got.Headers {
			if name != strings.ToLower(name) {
				t.Errorf("%s is not in lower case", name)
			}
		}
	})
}

// TestWebhooksOnTheSDKFace checks the forms of payloads that SDKs expect, and their envelope.
func TestWebhooksOnTheSDKFace(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		made := s.call("POST", "/sdk/webhook/create", object{"name": "orders"}).want(201)
		u, err := url.Parse(made.text("data.url"))
		s.must(err)
		h := hook{ID: made.text("data.id"), path: u.Path}
		forms := object{
			`{"a": "b"}`:                            object{"a": "b"},
			"plain text":                            base64.StdEncoding.EncodeToString([]byte("plain text")),
			` "a string"`:                           base64.StdEncoding.EncodeToString([]byte(` "a string"`)),
			"\xff\x00\xfe":                          base64.StdEncoding.EncodeToString([]byte("\xff\x00\xfe")),
			"17":                                    17.0,
			strings.Repeat(" \n", 100) + `{"a": 1}`: object{"a": 1.0},
			strings.Repeat(" ", 100) + `"b"`:        base64.StdEncoding.EncodeToString([]byte(strings.Repeat(" ", 100) + `"b"`)),
			"":                                      "",
		}
		for body, want := range forms {
			id := s.ingest(h, body)
			got := s.call("GET", "/sdk/webhook/receipt-get/"+h.ID+"/"+id, nil).want(200)
			if payload := got.get("data.payload"); !reflect.DeepEqual(payload, want) {
				t.Errorf("%q is returned as %v, want %v", body, payload, want)
			}
			var list struct{ Data []struct{ Payload any } }
			s.call("GET", "/sdk/webhook/receipt-list/"+h.ID+"?limit=1", nil).want(200).decode(&list)
			if !reflect.DeepEqual(list.Data[0].Payload, want) {
				t.Errorf("%q is listed as %v, want %v", body, list.Data[0].Payload, want)
			}
		}
		n := float64(len(forms))
		analytics := s.call("GET", "/sdk/webhook/analytics/org", nil).want(200)
		if analytics.get("data.analytics.summary.total_received") != n {
			t.Errorf("analytics: %s", analytics.body)
		}
		for webhookID, want := range map[string]float64{h.ID: n, "wh_unknown": 0} {
			one := s.call("GET", "/webhook/analytics/org?webhookId="+webhookID, nil).want(200)
			if one.get("summary.total_received") != want {
				t.Errorf("analytics of %s: %s", webhookID, one.body)
			}
		}
		series := s.call("GET", "/sdk/webhook/analytics/org/timeseries", nil).want(200)
		if series.get("data.timeseries.series") == nil {
			t.Errorf("timeseries: %s", series.body)
		}
		deleted := s.call("DELETE", "/sdk/webhook/delete/"+h.ID, nil).want(200)
		if strings.TrimSpace(string(deleted.body)) != `{"success":true}` {
			t.Errorf("delete: %s", deleted.body)
		}
		missing := s.call("GET", "/sdk/webhook/get/"+h.ID, nil).want(404)
		if missing.get("success") != false || missing.code() != "not_found" || missing.text("message") == "" {
			t.Errorf("an error: %s", missing.body)
		}
	})
}

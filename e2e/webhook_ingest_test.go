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

	"steward/e2e/installation"
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
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		h := s.NewHook("orders")
		for i, b := range bodies {
			sent, err := s.Send(b.method, h.Path+"?from=a%20b&x", strings.NewReader(b.body), "Content-Type", b.contentType)
			s.Must(err)
			id := sent.Want(200).Text("id")
			r := s.GetReceipt(h, id)
			if !equalJSON(t, r.Payload, b.payload) || r.Encoding != b.encoding {
				t.Errorf("%s: payload %.200s, encoding %q", b.name, r.Payload, r.Encoding)
			}
			if r.ID != id || r.WebhookID != h.ID || r.Method != b.method || r.Query != "from=a%20b&x" ||
				r.Size != len(b.body) || r.ContentType != b.contentType || !strings.HasPrefix(r.RemoteAddr, "127.0.0.1") {
				r.Payload = nil
				t.Errorf("%s: receipt %+v", b.name, r)
			}
			raw := s.Call("GET", "/webhook/receipt-payload/"+h.ID+"/"+id, nil).Want(200)
			if string(raw.Body) != b.body {
				t.Errorf("%s: the raw payload differs: %.100q", b.name, raw.Body)
			}
			if total := s.Total("/webhook/receipt-list/" + h.ID + "?limit=1"); total != fmt.Sprint(i+1) {
				t.Errorf("%s: total %s, want %d", b.name, total, i+1)
			}
		}
		for _, r := range s.ListReceipts(h) {
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
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		h := s.NewHook("orders")
		over := bytes.Repeat([]byte("x"), mebi+1)
		r, err := s.Send("POST", h.Path, bytes.NewReader(over))
		s.Must(err)
		if r.Want(413).Code() != "too_large" {
			t.Errorf("with Content-Length: %s", r.Body)
		}
		r, err = s.Send("POST", h.Path, io.MultiReader(bytes.NewReader(over))) // of unknown length, so chunked
		s.Must(err)
		if r.Want(413).Code() != "too_large" {
			t.Errorf("chunked: %s", r.Body)
		}
		// The response comes before the body, so that a client that waits for it need not send any.
		if status, _ := s.Raw("POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n", h.Path); status != 413 {
			t.Errorf("a Content-Length over the limit: %d", status)
		}
		for what, rest := range map[string]string{
			"a truncated body": "Content-Length: 10\r\n\r\nshort",
			"truncated chunks": "Transfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
			"invalid chunks":   "Transfer-Encoding: chunked\r\n\r\nzz\r\nshort\r\n0\r\n\r\n",
		} {
			if status, _ := s.Raw("POST %s HTTP/1.1\r\nHost: a\r\n%s", h.Path, rest); status/100 == 2 {
				t.Errorf("%s: %d", what, status)
			}
		}
		options, err := s.Send("OPTIONS", h.Path, nil)
		s.Must(err)
		if options.Want(405).Header.Get("Allow") == "" {
			t.Error("405 without Allow")
		}
		if total := s.Total("/webhook/receipt-list/" + h.ID); total != "0" || len(s.ListReceipts(h)) != 0 {
			t.Errorf("%s receipts are counted, %d are stored", total, len(s.ListReceipts(h)))
		}
	})
}

func TestReceiptHeadersAreJoinedInLowerCase(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	h := s.NewHook("orders")
	status, _ := s.Raw("POST %s HTTP/1.1\r\nHost: example.com\r\nX-MANY: a\r\nx-many: b\r\nX-Odd: caf\xe9\r\nX-Empty:\r\n"+
		"Content-Type: Text/Plain\r\nContent-Length: 2\r\n\r\nhi", h.Path)
	if status != 200 {
		t.Fatalf("got %d", status)
	}
	got := s.ListReceipts(h)[0]
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
}

// TestWebhooksOnTheSDKFace checks the forms of payloads that SDKs expect, and their envelope.
func TestWebhooksOnTheSDKFace(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	made := s.Call("POST", "/sdk/webhook/create", object{"name": "orders"}).Want(201)
	u, err := url.Parse(made.Text("data.url"))
	s.Must(err)
	h := installation.Hook{ID: made.Text("data.id"), Path: u.Path}
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
		id := s.Ingest(h, body)
		got := s.Call("GET", "/sdk/webhook/receipt-get/"+h.ID+"/"+id, nil).Want(200)
		if payload := got.Get("data.payload"); !reflect.DeepEqual(payload, want) {
			t.Errorf("%q is returned as %v, want %v", body, payload, want)
		}
		var list struct{ Data []struct{ Payload any } }
		s.Call("GET", "/sdk/webhook/receipt-list/"+h.ID+"?limit=1", nil).Want(200).Decode(&list)
		if !reflect.DeepEqual(list.Data[0].Payload, want) {
			t.Errorf("%q is listed as %v, want %v", body, list.Data[0].Payload, want)
		}
	}
	n := float64(len(forms))
	analytics := s.Call("GET", "/sdk/webhook/analytics/org", nil).Want(200)
	if analytics.Get("data.analytics.summary.total_received") != n {
		t.Errorf("analytics: %s", analytics.Body)
	}
	for webhookID, want := range map[string]float64{h.ID: n, "wh_unknown": 0} {
		one := s.Call("GET", "/webhook/analytics/org?webhookId="+webhookID, nil).Want(200)
		if one.Get("summary.total_received") != want {
			t.Errorf("analytics of %s: %s", webhookID, one.Body)
		}
	}
	series := s.Call("GET", "/sdk/webhook/analytics/org/timeseries", nil).Want(200)
	if series.Get("data.timeseries.series") == nil {
		t.Errorf("timeseries: %s", series.Body)
	}
	deleted := s.Call("DELETE", "/sdk/webhook/delete/"+h.ID, nil).Want(200)
	if strings.TrimSpace(string(deleted.Body)) != `{"success":true}` {
		t.Errorf("delete: %s", deleted.Body)
	}
	missing := s.Call("GET", "/sdk/webhook/get/"+h.ID, nil).Want(404)
	if missing.Get("success") != false || missing.Code() != "not_found" || missing.Text("message") == "" {
		t.Errorf("an error: %s", missing.Body)
	}
}

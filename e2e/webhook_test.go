package e2e

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"
)

// hook is a webhook and the path that takes requests in. The path outlives the process, which has another port after a restart.
type hook struct{ ID, URL, path string }

func (s *steward) hook(name string) hook {
	s.t.Helper()
	var h hook
	s.call("POST", "/webhook/create", map[string]any{"name": name}).want(201).into(&h)
	u, err := url.Parse(h.URL)
	s.must(err)
	h.path = u.Path
	return h
}

// destination adds a destination and gives its id and secret. Settings come in pairs.
func (s *steward) destination(h hook, to string, settings ...any) (id, secret string) {
	s.t.Helper()
	config := map[string]any{"url": to}
	for i := 0; i < len(settings); i += 2 {
		config[settings[i].(string)] = settings[i+1]
	}
	made := s.call("POST", "/webhook/destination-create/"+h.ID, map[string]any{"type": "url", "config": config}).want(201)
	return made.text("id"), made.text("secret")
}

// send makes a request as a stranger would, without a key. Headers come in pairs; a repeated name is sent twice.
func (s *steward) send(method, path string, body io.Reader, headers ...string) (*answer, error) {
	req, err := http.NewRequest(method, s.URL+path, body)
	s.must(err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	return read(s.t, res)
}

// read takes an answer whole.
func read(t testing.TB, res *http.Response) (*answer, error) {
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	what := res.Request.Method + " " + res.Request.URL.Path
	return &answer{t: t, what: what, status: res.StatusCode, header: res.Header, body: text}, err
}

// ingest sends a body that must be taken, and gives the receipt's id.
func (s *steward) ingest(h hook, body string, headers ...string) string {
	s.t.Helper()
	a, err := s.send("POST", h.path, strings.NewReader(body), headers...)
	s.must(err)
	return a.want(200).text("id")
}

// receipt is what receipt-get shows.
type receipt struct {
	ID          string
	Date        time.Time
	WebhookID   string `json:"webhook_id"`
	Headers     map[string]string
	Payload     json.RawMessage
	Encoding    string `json:"payload_encoding"`
	Omitted     bool   `json:"payload_omitted"`
	Method      string
	Query       string
	RemoteAddr  string `json:"remote_addr"`
	Size        int
	ContentType string `json:"content_type"`
}

func (s *steward) receipt(h hook, id string) (r receipt) {
	s.t.Helper()
	s.call("GET", "/webhook/receipt-get/"+h.ID+"/"+id, nil).want(200).into(&r)
	return r
}

// receipts gives the first page of a webhook's receipts.
func (s *steward) receipts(h hook) (all []receipt) {
	s.t.Helper()
	s.call("GET", "/webhook/receipt-list/"+h.ID, nil).want(200).into(&all)
	return all
}

// total reads X-Total-Count.
func (s *steward) total(path string) string {
	s.t.Helper()
	return s.call("GET", path, nil).want(200).header.Get("X-Total-Count")
}

const mebi = 1 << 20

// bodies are requests with what a receipt shows of them.
var bodies = []struct {
	name, method, contentType, body, payload, encoding string
}{
	{"json", "POST", "application/json", `{"b": [1.5, "é"], "n": 12345678901234567890}`, `{"b": [1.5, "é"], "n": 12345678901234567890}`, ""},
	{"json without type", "POST", "", ` [1, 2] `, `[1, 2]`, ""},
	{"json null", "POST", "application/json", `null`, `null`, ""},
	{"form", "POST", "application/x-www-form-urlencoded", "a=1&b=%20", `"a=1&b=%20"`, ""},
	{"text", "POST", "text/plain; charset=utf-8", "héllo\nworld", `"héllo\nworld"`, ""},
	{"text with NUL", "POST", "text/plain", "a\x00b", `"a\u0000b"`, ""},
	{"broken json", "POST", "application/json", `{"a": `, `"{\"a\": "`, ""},
	{"binary", "POST", "application/octet-stream", "\xff\xfe\x00\x01", `"//4AAQ=="`, "base64"},
	{"empty", "POST", "", "", `""`, ""},
	{"GET", "GET", "", "", `""`, ""},
	{"PUT", "PUT", "text/plain", "put", `"put"`, ""},
	{"PATCH", "PATCH", "text/plain", "patch", `"patch"`, ""},
	{"DELETE", "DELETE", "text/plain", "delete", `"delete"`, ""},
	{"own method", "PURGE", "", "", `""`, ""},
	{"exactly 1 MiB", "POST", "text/plain", strings.Repeat("x", mebi), `"` + strings.Repeat("x", mebi) + `"`, ""},
}

func TestWebhookIngest(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		h := s.hook("orders")
		for i, b := range bodies {
			a, err := s.send(b.method, h.path+"?from=a%20b&x", strings.NewReader(b.body), "Content-Type", b.contentType)
			s.must(err)
			id := a.want(200).text("id")
			r := s.receipt(h, id)
			if !equalJSON(t, r.Payload, b.payload) || r.Encoding != b.encoding {
				t.Errorf("%s: payload %.200s, encoding %q", b.name, r.Payload, r.Encoding)
			}
			if r.ID != id || r.WebhookID != h.ID || r.Method != b.method || r.Query != "from=a%20b&x" || r.Size != len(b.body) ||
				r.ContentType != b.contentType || !strings.HasPrefix(r.RemoteAddr, "127.0.0.1") {
				r.Payload = nil
				t.Errorf("%s: receipt %+v", b.name, r)
			}
			raw := s.call("GET", "/webhook/receipt-payload/"+h.ID+"/"+id, nil).want(200)
			if string(raw.body) != b.body {
				t.Errorf("%s: the raw payload differs: %.100q", b.name, raw.body)
			}
			if total := s.total("/webhook/receipt-list/" + h.ID + "?limit=1"); total != fmt.Sprint(i+1) {
				t.Errorf("%s: %s receipts in all, want %d", b.name, total, i+1)
			}
		}
		for _, r := range s.receipts(h) {
			if large := r.Size > 64<<10; r.Omitted != large || large && string(r.Payload) != "null" {
				t.Errorf("a listed receipt of %d bytes has omitted %v", r.Size, r.Omitted)
			}
		}
	})
}

func equalJSON(t *testing.T, got []byte, want string) bool {
	t.Helper()
	return reflect.DeepEqual(number(t, string(got)), number(t, want))
}

// number decodes JSON without losing digits.
func number(t *testing.T, text string) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %.200s", err, text)
	}
	return v
}

// TestWebhookIngestRefuses: what is refused leaves nothing behind.
func TestWebhookIngestRefuses(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		h := s.hook("orders")
		over := bytes.Repeat([]byte("x"), mebi+1)
		a, err := s.send("POST", h.path, bytes.NewReader(over))
		s.must(err)
		if a.want(413).code() != "too_large" {
			t.Errorf("with Content-Length: %s", a.body)
		}
		a, err = s.send("POST", h.path, io.MultiReader(bytes.NewReader(over))) // of unknown length, so chunked
		s.must(err)
		if a.want(413).code() != "too_large" {
			t.Errorf("chunked: %s", a.body)
		}
		// The answer comes before the body is sent, so that a client that waits for it sends none.
		if status, _ := s.raw("POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n", h.path); status != 413 {
			t.Errorf("an announced body over the limit: %d", status)
		}
		for what, rest := range map[string]string{
			"a body that ends early":  "Content-Length: 10\r\n\r\nshort",
			"chunks that end early":   "Transfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
			"chunks that are no such": "Transfer-Encoding: chunked\r\n\r\nzz\r\nshort\r\n0\r\n\r\n",
		} {
			if status, _ := s.raw("POST %s HTTP/1.1\r\nHost: a\r\n%s", h.path, rest); status/100 == 2 {
				t.Errorf("%s: %d", what, status)
			}
		}
		options, err := s.send("OPTIONS", h.path, nil)
		s.must(err)
		if options.want(405).header.Get("Allow") == "" {
			t.Error("a 405 without Allow")
		}
		if total := s.total("/webhook/receipt-list/" + h.ID); total != "0" || len(s.receipts(h)) != 0 {
			t.Errorf("%s receipts are counted, %d are there", total, len(s.receipts(h)))
		}
	})
}

// raw writes a request to a connection, ends its own side, and gives the status and body of the answer; 0 when there is none.
func (s *steward) raw(format string, args ...any) (int, string) {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	s.must(err)
	defer conn.Close()
	s.must(conn.SetDeadline(time.Now().Add(requestTimeout)))
	_, err = fmt.Fprintf(conn, format, args...)
	s.must(err)
	s.must(conn.(*net.TCPConn).CloseWrite())
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	s.must(err)
	return res.StatusCode, string(text)
}

func TestWebhookReceiptHeaders(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		h := s.hook("orders")
		status, _ := s.raw("POST %s HTTP/1.1\r\nHost: example.com\r\nX-MANY: a\r\nx-many: b\r\nX-Odd: caf\xe9\r\nX-Empty:\r\n"+
			"Content-Type: Text/Plain\r\nContent-Length: 2\r\n\r\nhi", h.path)
		if status != 200 {
			t.Fatalf("got %d", status)
		}
		got := s.receipts(h)[0]
		want := map[string]string{"host": "example.com", "x-many": "a, b", "x-odd": "caf\uFFFD", "x-empty": "", "content-type": "Text/Plain"}
		for name, value := range want {
			if v, there := got.Headers[name]; !there || v != value {
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

// TestWebhookURL: the URL is told once, is the only way in, and a new one ends the old one at once.
func TestWebhookURL(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		h := s.hook("orders")
		if !strings.HasPrefix(h.URL, s.URL+"/in/"+h.ID+"/") {
			t.Errorf("the URL is %s", h.URL)
		}
		if got := s.call("GET", "/webhook/get/"+h.ID, nil).want(200); got.get("url") != nil {
			t.Errorf("get tells the URL: %s", got.body)
		}
		if got := s.call("GET", "/webhook/list", nil).want(200); strings.Contains(string(got.body), "/in/") {
			t.Errorf("the list tells the URL: %s", got.body)
		}
		if got := s.call("PUT", "/webhook/update/"+h.ID, map[string]any{"name": "renamed"}).want(200); got.get("url") != nil {
			t.Errorf("update tells the URL: %s", got.body)
		}
		if total := s.total("/webhook/list?limit=0"); total != "1" {
			t.Errorf("%s webhooks, want 1", total)
		}
		s.ingest(h, "1")
		wrong := []string{
			h.path[:len(h.path)-1] + "_", h.path[:len(h.path)-1], h.path + "x", "/in/wh_01jcq3v5w8z9d6y4k2m7n0p1rt/" + h.path[len(h.path)-32:],
			"/in/nothing/x", "/in/%ff/%fe",
		}
		first := s.refused(wrong[0])
		for _, path := range wrong[1:] {
			if got := s.refused(path); got != first {
				t.Errorf("%s is told apart from a wrong token: %s, %s", path, got, first)
			}
		}
		rotated := s.call("POST", "/webhook/rotate-url/"+h.ID, nil).want(200)
		s.refused(h.path)
		u, err := url.Parse(rotated.text("url"))
		s.must(err)
		s.ingest(hook{path: u.Path}, "2")
		if total := s.total("/webhook/receipt-list/" + h.ID); total != "2" {
			t.Errorf("%s receipts, want 2", total)
		}
	})
}

// TestWebhookURLOnReplicas: a replica that has used a URL hears of its end from the one that ended it.
func TestWebhookURLOnReplicas(t *testing.T) {
	t.Parallel()
	one := begin(t, "postgres")
	two := one.replica()
	for what, end := range map[string]func(h hook){
		"rotate": func(h hook) { one.call("POST", "/webhook/rotate-url/"+h.ID, nil).want(200) },
		"delete": func(h hook) { one.call("DELETE", "/webhook/delete/"+h.ID, nil).want(204) },
	} {
		h := one.hook("orders")
		two.ingest(h, "x")
		end(h)
		one.refused(h.path)
		within(t, time.Second, "the other replica to refuse the URL after "+what, func() bool {
			a, err := two.send("POST", h.path, nil)
			two.must(err)
			return a.status == 404
		})
	}
}

// refused sends to a path that must not be there, and gives the answer without what differs from request to request.
func (s *steward) refused(path string) string {
	s.t.Helper()
	a, err := s.send("POST", path, strings.NewReader("x"))
	s.must(err)
	var problem map[string]any
	a.want(404).into(&problem)
	delete(problem, "request_id")
	text, err := json.Marshal(problem)
	s.must(err)
	return string(text)
}

// TestWebhookSDKForms: the enveloped face, for existing SDKs.
func TestWebhookSDKForms(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		made := s.call("POST", "/sdk/webhook/create", map[string]any{"name": "orders"}).want(201)
		u, err := url.Parse(made.text("data.url"))
		s.must(err)
		h := hook{ID: made.text("data.id"), path: u.Path}
		forms := map[string]any{
			`{"a": "b"}`:   map[string]any{"a": "b"},
			"plain text":   base64.StdEncoding.EncodeToString([]byte("plain text")),
			` "a string"`:  base64.StdEncoding.EncodeToString([]byte(` "a string"`)),
			"\xff\x00\xfe": base64.StdEncoding.EncodeToString([]byte("\xff\x00\xfe")),
			"17":           17.0,
			// More white space than anybody should look through.
			strings.Repeat(" \n", 100) + `{"a": 1}`: map[string]any{"a": 1.0},
			strings.Repeat(" ", 100) + `"b"`:        base64.StdEncoding.EncodeToString([]byte(strings.Repeat(" ", 100) + `"b"`)),
			"":                                      "",
		}
		for body, want := range forms {
			id := s.ingest(h, body)
			got := s.call("GET", "/sdk/webhook/receipt-get/"+h.ID+"/"+id, nil).want(200)
			if payload := got.get("data.payload"); !reflect.DeepEqual(payload, want) {
				t.Errorf("%q is shown as %v, want %v", body, payload, want)
			}
			var list struct{ Data []struct{ Payload any } }
			s.call("GET", "/sdk/webhook/receipt-list/"+h.ID+"?limit=1", nil).want(200).into(&list)
			if !reflect.DeepEqual(list.Data[0].Payload, want) {
				t.Errorf("%q is listed as %v, want %v", body, list.Data[0].Payload, want)
			}
		}
		n := float64(len(forms))
		if got := s.call("GET", "/sdk/webhook/analytics/org", nil).want(200); got.get("data.analytics.summary.total_received") != n {
			t.Errorf("analytics: %s", got.body)
		}
		if got := s.call("GET", "/sdk/webhook/analytics/org/timeseries", nil).want(200); got.get("data.timeseries.series") == nil {
			t.Errorf("timeseries: %s", got.body)
		}
		if got := s.call("DELETE", "/sdk/webhook/delete/"+h.ID, nil).want(200); strings.TrimSpace(string(got.body)) != `{"success":true}` {
			t.Errorf("delete: %s", got.body)
		}
		missing := s.call("GET", "/sdk/webhook/get/"+h.ID, nil).want(404)
		if missing.get("success") != false || missing.code() != "not_found" || missing.text("message") == "" {
			t.Errorf("an error: %s", missing.body)
		}
	})
}

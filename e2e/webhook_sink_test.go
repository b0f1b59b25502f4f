package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/waittest"
)

// arrival is a request that reached the sink.
type arrival struct {
	method, host, body, remote string
	header                     http.Header
	at                         time.Time
}

// sink is a real server that deliveries go to. Each path answers in its own way, 200 unless on gave it another one.
type sink struct {
	*httptest.Server
	t testing.TB

	mu      sync.Mutex
	got     map[string][]arrival
	answers map[string]func(w http.ResponseWriter, r *http.Request, n int)
}

func newSink(t testing.TB) *sink {
	k := &sink{
		t: t, got: map[string][]arrival{}, answers: map[string]func(http.ResponseWriter, *http.Request, int){},
	}
	k.Server = httptest.NewServer(http.HandlerFunc(k.serve))
	t.Cleanup(k.Close)
	t.Cleanup(k.CloseClientConnections) // before Close, which would wait for them
	return k
}

func (k *sink) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender was killed
	}
	k.mu.Lock()
	k.got[r.URL.Path] = append(k.got[r.URL.Path], arrival{r.Method, r.Host, string(body), r.RemoteAddr, r.Header.Clone(), time.Now()})
	n := len(k.got[r.URL.Path])
	answer := k.answers[r.URL.Path]
	k.mu.Unlock()
	if answer != nil {
		answer(w, r, n)
	}
}

// on says how a path answers its nth request, from 1.
func (k *sink) on(path string, answer func(w http.ResponseWriter, r *http.Request, n int)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answers[path] = answer
}

// status makes a path answer with a status and the same text as body.
func (k *sink) status(path string, status int, headers ...string) {
	k.on(path, func(w http.ResponseWriter, _ *http.Request, _ int) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		if status != 204 {
			fmt.Fprint(w, http.StatusText(status))
		}
	})
}

// await waits until a path was reached n times and gives those requests.
func (k *sink) await(path string, n int) (got []arrival) {
	k.t.Helper()
	waittest.Until(k.t, fmt.Sprintf("%d requests at %s", n, path), func() (int, bool) {
		k.mu.Lock()
		defer k.mu.Unlock()
		got = k.got[path]
		return len(got), len(got) >= n
	})
	return got
}

// count tells how often a path was reached.
func (k *sink) count(path string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.got[path])
}

// delivery is an entry of delivery-list.
type delivery struct {
	ID            string
	Date          time.Time
	WebhookID     string `json:"webhook_id"`
	DestinationID string `json:"webhook_destination_id"`
	ReceiptID     string `json:"webhook_receipt_id"`
	Status        string
	Retries       int
	Error         *string
	Response      *struct {
		Status   int
		Headers  map[string]string
		Body     string
		Duration *int64 `json:"duration_ms"`
	}
}

// deliveries lists deliveries, newest first.
func (s *steward) deliveries(h hook, query string) (all []delivery) {
	s.t.Helper()
	s.call("GET", "/webhook/delivery-list/"+h.ID+"?"+query, nil).want(200).into(&all)
	return all
}

// ended waits until the first attempt at a destination has ended, and gives it with what follows it, oldest first.
func (s *steward) ended(h hook, destinationID string) (chain []delivery) {
	s.t.Helper()
	waittest.True(s.t, "the end of the first attempt", func() bool {
		all := s.deliveries(h, "destinationId="+destinationID)
		chain = nil
		for i := range all {
			chain = append(chain, all[len(all)-1-i])
		}
		return len(chain) > 0 && chain[0].Status != "pending"
	})
	return chain
}

// behaviour is a way to answer, and what a delivery shows of it.
type behaviour struct {
	path   string
	status string
	answer int    // 0: no response
	says   string // part of the error
	next   bool   // another attempt follows
}

var behaviours = []behaviour{
	{"/200", "success", 200, "", false},
	{"/204", "success", 204, "", false},
	{"/large", "success", 200, "", false},
	{"/301", "failed", 301, "301", true},
	{"/404", "failed", 404, "404", true},
	{"/410", "failed", 410, "410", false},
	{"/429", "failed", 429, "429", true},
	{"/500", "failed", 500, "500", true},
	{"/large500", "failed", 500, "500", true},
	{"/hang", "failed", 0, "within 1 s", true},
	{"/close", "failed", 0, "EOF", true},
	{"/garbage", "failed", 0, "malformed", true},
}

// timeout is the destination's: short where it is waited for, else more than enough on a busy machine.
func (b behaviour) timeout() int {
	if b.path == "/hang" {
		return 1
	}
	return 60
}

func behave(k *sink) {
	for _, status := range []int{200, 204, 404, 410, 500} {
		k.status("/"+strconv.Itoa(status), status)
	}
	k.status("/301", 301, "Location", k.URL+"/200")
	k.status("/429", 429, "Retry-After", "3600")
	k.on("/hang", func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() })
	large := func(status int) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.WriteHeader(status)
			w.Write([]byte(strings.Repeat("0123456789", 1_000_000))) // fails when the other side has seen enough
		}
	}
	k.on("/large", large(200))
	k.on("/large500", large(500))
	cut := func(text string) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, _ *http.Request, _ int) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				io.WriteString(conn, text)
				conn.Close()
			}
		}
	}
	k.on("/close", cut(""))
	k.on("/garbage", cut("\x16\x03 this is not HTTP\r\n\r\n"))
}

// TestWebhookDestinationsAnswer sends one event to destinations that answer in every way, well or badly.
func TestWebhookDestinationsAnswer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h := newSink(t), s.hook("orders")
		behave(k)
		ids := map[string]string{}
		for _, b := range behaviours {
			ids[b.path], _ = s.destination(h, k.URL+b.path, "timeout_seconds", b.timeout(), "max_retries", 1)
		}
		receiptID := s.ingest(h, `{"n": 1}`)
		for _, b := range behaviours {
			chain := s.ended(h, ids[b.path])
			first := chain[0]
			if first.Status != b.status || first.Retries != 0 || first.ReceiptID != receiptID || first.WebhookID != h.ID {
				t.Errorf("%s: %+v", b.path, first)
			}
			if b.says == "" != (first.Error == nil) || first.Error != nil && !strings.Contains(*first.Error, b.says) {
				t.Errorf("%s: error %v, want %q", b.path, text(first.Error), b.says)
			}
			if (b.answer == 0) != (first.Response == nil) || first.Response != nil && first.Response.Status != b.answer {
				t.Errorf("%s: response %+v", b.path, first.Response)
			}
			if b.next != (len(chain) == 2) || b.next && (chain[1].Status != "pending" || chain[1].Retries != 1 || chain[1].Response != nil) {
				t.Errorf("%s: the chain is %+v", b.path, chain)
			}
		}
		kept := strings.Repeat("0123456789", 2000)[:16<<10]
		for path, want := range map[string]string{"/200": "OK", "/404": "Not Found", "/large": kept, "/large500": kept} {
			response := s.ended(h, ids[path])[0].Response
			if response.Body != want || response.Duration == nil || response.Headers["date"] == "" {
				t.Errorf("%s: the kept answer has %d bytes, %v", path, len(response.Body), response.Headers)
			}
		}
		if n := k.count("/200"); n != 1 {
			t.Errorf("/200 was reached %d times: the redirect was followed", n)
		}
		s.gone(h, k, ids["/410"])
	})
}

func text(s *string) string {
	if s == nil {
		return "none"
	}
	return *s
}

// gone shows that a destination which answered 410 is off.
func (s *steward) gone(h hook, k *sink, id string) {
	s.t.Helper()
	var list []struct {
		ID     string
		Config struct {
			URL        string
			Disabled   bool
			MaxRetries int `json:"max_retries"`
		}
	}
	s.call("GET", "/webhook/destination-list/"+h.ID, nil).want(200).into(&list)
	for _, d := range list {
		if d.Config.Disabled != (d.ID == id) || d.Config.MaxRetries != 1 {
			s.t.Errorf("%s has %+v", d.Config.URL, d.Config)
		}
	}
	receiptID := s.ingest(h, "after the 410")
	k.await("/200", 2)
	if more := s.deliveries(h, "destinationId="+id+"&receiptId="+receiptID); len(more) != 0 || k.count("/410") != 1 {
		s.t.Errorf("a destination that is gone gets %+v", more)
	}
}

// TestWebhookRetriesByItself: after 5 s ±20 % without being asked, and when the destination says so.
func TestWebhookRetriesByItself(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h := newSink(t), s.hook("orders")
		failOnce := func(status int, headers ...string) func(http.ResponseWriter, *http.Request, int) {
			return func(w http.ResponseWriter, _ *http.Request, n int) {
				if n == 1 {
					for i := 0; i < len(headers); i += 2 {
						w.Header().Set(headers[i], headers[i+1])
					}
					w.WriteHeader(status)
				}
			}
		}
		k.on("/flaky", failOnce(500))
		k.on("/busy", failOnce(429, "Retry-After", "1"))
		flaky, _ := s.destination(h, k.URL+"/flaky")
		busy, _ := s.destination(h, k.URL+"/busy")
		receiptID := s.ingest(h, `{"n": 1}`)
		for _, retry := range []struct {
			path      string
			min, most time.Duration
		}{{"/busy", time.Second, 3 * time.Second}, {"/flaky", 4 * time.Second, 7 * time.Second}} {
			path := retry.path
			within(t, retry.most, "the second attempt at "+path, func() bool {
				s.call("GET", "/healthz", nil).want(200)
				return k.count(path) == 2
			})
			got := k.await(path, 2)
			if pause := got[1].at.Sub(got[0].at); pause < retry.min {
				t.Errorf("%s was tried again after %v", path, pause)
			}
			for i := range 2 {
				if got[i].header.Get("Webhook-Id") != receiptID || got[i].header.Get("Steward-Attempt") != strconv.Itoa(i) {
					t.Errorf("%s: attempt %d has the headers %v", path, i, got[i].header)
				}
			}
		}
		for _, id := range []string{flaky, busy} {
			var all []delivery
			waittest.True(t, "the end of the second attempt", func() bool {
				all = s.deliveries(h, "destinationId="+id)
				return len(all) == 2 && all[0].Status != "pending"
			})
			if all[0].Status != "success" || all[0].Retries != 1 || all[1].Status != "failed" {
				t.Errorf("the chain is %+v", all)
			}
		}
	})
}

// TestWebhookSends shows what exactly a destination gets.
func TestWebhookSends(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h := newSink(t), s.hook("orders")
		id, secret := s.destination(h, k.URL+"/hook?fixed=1", "headers", map[string]string{
			"X-Tenant": "a", "X-Both": "ours", "Authorization": "Bearer of-the-destination",
		})
		body := "\x00\xffbinary\r\n"
		status, answer := s.raw("PUT %s?secret=1 HTTP/1.1\r\nHost: example.com\r\nContent-Type: application/x-own\r\n"+
			"X-Keep: yes\r\nX-Both: theirs\r\nCookie: a=b\r\nAuthorization: Bearer stolen\r\n"+
			"Proxy-Authorization: Basic eA==\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n"+
			"Keep-Alive: timeout=5\r\nTE: trailers\r\nUpgrade: h2c\r\nWebhook-Id: forged\r\nSteward-Attempt: 99\r\nUser-Agent: theirs/1\r\n"+
			"Content-Length: %d\r\n\r\n%s", h.path, len(body), body)
		if status != 200 {
			t.Fatalf("got %d: %s", status, answer)
		}
		got := k.await("/hook", 1)[0]
		first := s.ended(h, id)[0]
		if got.method != "PUT" || got.body != body || got.host != strings.TrimPrefix(k.URL, "http://") {
			t.Errorf("sent %s %q to %s", got.method, got.body, got.host)
		}
		want := map[string]string{
			"Content-Type": "application/x-own", "X-Keep": "yes", "X-Both": "ours", "X-Tenant": "a", "User-Agent": "theirs/1",
			"Authorization": "Bearer of-the-destination", "Webhook-Id": first.ReceiptID, "Steward-Delivery": first.ID, "Steward-Attempt": "0",
		}
		for name, value := range want {
			if v := got.header.Values(name); len(v) != 1 || v[0] != value {
				t.Errorf("%s is %q, want %q", name, v, value)
			}
		}
		for _, name := range []string{"Cookie", "Proxy-Authorization", "Connection", "X-Hop", "Keep-Alive", "Te", "Upgrade", "Accept-Encoding"} {
			if v := got.header.Values(name); len(v) != 0 {
				t.Errorf("%s was passed on: %q", name, v)
			}
		}
		verify(t, got, secret)
		shown := s.call("GET", "/webhook/destination-list/"+h.ID, nil).want(200)
		if strings.Contains(string(shown.body), secret) {
			t.Error("the list shows the secret")
		}
		s.call("POST", "/webhook/destination-create/"+h.ID, map[string]any{"type": "url", "config": map[string]any{
			"url": k.URL, "headers": map[string]string{"Webhook-Signature": "v1,forged"},
		}}).want(422)
	})
}

// verify checks a signature as the Standard Webhooks specification tells receivers to.
func verify(t *testing.T, a arrival, secret string) {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || !strings.HasPrefix(secret, "whsec_") || len(key) < 24 || len(key) > 64 {
		t.Fatalf("the secret is none: %v", err)
	}
	stamp := a.header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || a.at.Sub(time.Unix(seconds, 0)).Abs() > time.Minute {
		t.Errorf("the timestamp is %q", stamp)
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", a.header.Get("Webhook-Id"), stamp, a.body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); a.header.Get("Webhook-Signature") != want {
		t.Errorf("the signature is %q, want %q", a.header.Get("Webhook-Signature"), want)
	}
}

package send

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
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRequestIsForwarded compares what arrives with the original request, and verifies the
// signature independently.
func TestRequestIsForwarded(t *testing.T) {
	var got *http.Request
	var body []byte
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	}))
	defer target.Close()
	original := httptest.NewRequest("PATCH", "/in/x/y?not=forwarded", nil)
	for name, value := range map[string]string{
		"X-Custom": "kept", "X-Both": "original", "Cookie": "a=b", "Authorization": "Bearer x", "Connection": "X-Hop, close", "X-Hop": "1",
		"Te": "trailers", "Webhook-Id": "theirs", "Content-Type": "application/x-raw", "Accept-Encoding": "br", "Expect": "100-continue",
		"Proxy-Authorization": "Basic x", "Keep-Alive": "timeout=5", "Upgrade": "h2c", "Content-Length": "7",
	} {
		original.Header.Set(name, value)
	}
	raw := "\x00\xff raw"
	result := newClient(t).Send(t.Context(), Request{
		Method: original.Method, URL: target.URL + "/hook?a=b", Received: Fields(original), Body: []byte(raw),
		Headers:   map[string]string{"X-Own": "mine", "x-both": "config"},
		ReceiptID: "whrc_1", DeliveryID: "whdv_1", Attempt: 3, Signer: NewSigner([]byte("key")), Timeout: noTimeout,
	})
	if result.Error != "" {
		t.Fatal(result.Error)
	}
	if got.Method != "PATCH" || string(body) != raw || got.URL.String() != "/hook?a=b" || "http://"+got.Host != target.URL {
		t.Errorf("got %s %s %s %q", got.Method, got.Host, got.URL, body)
	}
	mac := hmac.New(sha256.New, []byte("key"))
	mac.Write([]byte("whrc_1.1794731400." + raw))
	for name, want := range map[string]string{
		"X-Custom": "kept", "X-Both": "config", "X-Own": "mine", "Cookie": "", "Authorization": "", "X-Hop": "", "Te": "", "Connection": "",
		"Accept-Encoding": "", "Expect": "", "Proxy-Authorization": "", "Keep-Alive": "", "Upgrade": "", "Content-Length": "6",
		"Webhook-Id": "whrc_1", "Steward-Delivery": "whdv_1", "Steward-Attempt": "3", "Content-Type": "application/x-raw",
		"Webhook-Timestamp": "1794731400", "User-Agent": userAgent,
		"Webhook-Signature": "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)),
	} {
		if v := got.Header.Get(name); v != want {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
}

func TestUserAgentOfTheOriginalIsKept(t *testing.T) {
	r := newPost("http://example.com")
	r.Received = []Field{{"user-agent", "curl/8"}}
	req, err := newRequest(t.Context(), r, now())
	must(t, err)
	if got := req.Header.Get("User-Agent"); got != "curl/8" {
		t.Errorf("got %q", got)
	}
}

// TestSignatureOfTheSpecification is the example of the Standard Webhooks specification.
// TestTraceparentOfTheAttemptReplacesTheOriginal unless there is none; what the destination sets is sent in any case.
func TestTraceparentOfTheAttemptReplacesTheOriginal(t *testing.T) {
	for _, test := range []struct{ attempt, configured, want string }{
		{"", "", "original"},
		{"attempt", "", "attempt"},
		{"attempt", "configured", "configured"},
	} {
		r := Request{
			Method: "POST", URL: "http://x", Traceparent: test.attempt,
			Received: FieldsOf(map[string]string{"traceparent": "original", "tracestate": "a=b"}),
		}
		if test.configured != "" {
			r.Headers = map[string]string{"traceparent": test.configured}
		}
		req, err := newRequest(t.Context(), r, now())
		if err != nil {
			t.Fatal(err)
		}
		if got := req.Header.Get("Traceparent"); got != test.want || req.Header.Get("Tracestate") != "a=b" {
			t.Errorf("%+v: traceparent %s, tracestate %s", test, got, req.Header.Get("Tracestate"))
		}
	}
}

func TestSignatureOfTheSpecification(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	must(t, err)
	got := NewSigner(key).Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("got %s", got)
	}
}

// TestRotatedSecretSignsToo checks both signatures until the old secret's time is over.
func TestRotatedSecretSignsToo(t *testing.T) {
	at := time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC)
	signer := NewSigner([]byte("new")).Until(at.Add(time.Hour), []byte("old"))
	for after, want := range map[time.Duration][]string{0: {"new", "old"}, time.Hour - 1: {"new", "old"}, time.Hour: {"new"}} {
		now := at.Add(after)
		var signatures []string
		for _, key := range want {
			signatures = append(signatures, NewSigner([]byte(key)).Sign("whrc_1", strconv.FormatInt(now.Unix(), 10), []byte("body")))
		}
		if got := signer.signatures("whrc_1", now, []byte("body")); got != strings.Join(signatures, " ") {
			t.Errorf("after %s: %s, want %s", after, got, signatures)
		}
	}
}

// TestHeaderPrecedence draws headers and compares those of the request with a simple model. The
// transport must be able to write what was drawn.
func TestHeaderPrecedence(t *testing.T) {
	names := rapid.OneOf(
		rapid.SampledFrom([]string{"content-type", "user-agent", "connection", "x-a", "x-b", "cookie", "te", "host", "webhook-id"}),
		rapid.StringMatching(`[a-z!#$%&'*+.^_|~-]{1,8}`), rapid.StringMatching(`[é :\r\n]{1,2}`))
	values := rapid.OneOf(
		rapid.SampledFrom([]string{"", "x-a, close", " spaces around\t", "a\r\nb"}),
		rapid.StringMatching(`[ -~\t<>&"\\é☃]{0,20}`))
	valid := values.Filter(func(value string) bool { return Sendable("x", value) })
	rapid.Check(t, func(t *rapid.T) {
		received := rapid.MapOf(names, values).Draw(t, "received")
		own := rapid.MapOf(rapid.SampledFrom([]string{"x-own", "x-a", "user-agent"}), valid).Draw(t, "own")
		r := newPost("http://example.com/")
		r.Received = FieldsOf(received)
		r.Headers = own
		req, err := newRequest(t.Context(), r, now())
		if err != nil {
			t.Fatal(err)
		}
		if err := req.Write(io.Discard); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"user-agent": userAgent}
		for name, value := range received {
			if expectForwarded(name, value, received["connection"]) {
				want[name] = value
			}
		}
		for name, value := range own {
			want[name] = value
		}
		for _, name := range strings.Fields("webhook-id webhook-timestamp webhook-signature steward-delivery steward-attempt") {
			want[name] = req.Header.Get(name)
		}
		if len(want) != len(req.Header) {
			t.Errorf("got %v, want %v", req.Header, want)
		}
		for name, value := range want {
			if got := req.Header.Values(name); len(got) != 1 || got[0] != value {
				t.Errorf("%s: %q, want %q", name, got, value)
			}
		}
	})
}

// expectForwarded is the model of forward.
func expectForwarded(name, value, connection string) bool {
	const never = " connection cookie te host webhook-id "
	for _, option := range strings.Split(connection, ",") {
		if strings.EqualFold(strings.TrimSpace(option), name) {
			return false
		}
	}
	invalid := strings.ContainsAny(name, "é :\r\n") || strings.ContainsAny(value, "\r\n")
	return !invalid && !strings.Contains(never, " "+name+" ")
}

// TestManyHeadersTakeLinearTime compares the CPU time for 1,000 and for 10,000 received headers.
// Searching a list for each header would take 100 times as long.
func TestManyHeadersTakeLinearTime(t *testing.T) {
	few, many := headerCost(t, 1_000), headerCost(t, 10_000)
	if many > 40*few {
		t.Errorf("%s for 1,000 headers, %s for 10,000", few, many)
	}
}

// headerCost returns the CPU time for storing n headers and building a request from them, the least
// of several runs.
func headerCost(t *testing.T, n int) time.Duration {
	header := http.Header{}
	for i := range n {
		header.Set(fmt.Sprintf("x-%d", i), "v")
	}
	least := time.Duration(1<<63 - 1)
	for range 5 {
		before := cpuTime(t)
		received, err := UnmarshalFields(MarshalFields(Fields(&http.Request{Header: header})))
		must(t, err)
		r := newPost("http://example.com/")
		r.Received = received
		req, err := newRequest(t.Context(), r, now())
		must(t, err)
		must(t, req.Write(io.Discard))
		least = min(least, cpuTime(t)-before)
	}
	return least
}

// cpuTime returns the CPU time that the process has used.
func cpuTime(t *testing.T) time.Duration {
	var usage syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

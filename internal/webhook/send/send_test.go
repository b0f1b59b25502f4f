package send

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/web/pipetest"
)

const ok = "HTTP/1.1 200 OK\r\n"

// TestResults sends to servers that answer with given bytes, three times each.
func TestResults(t *testing.T) {
	okBody := &Response{Status: 200, Headers: map[string]string{"content-length": "2"}, Body: "ok"}
	empty := func(status int, headers ...string) *Response {
		r := &Response{Status: status, Headers: map[string]string{"content-length": "0"}}
		for i := 0; i < len(headers); i += 2 {
			r.Headers[headers[i]] = headers[i+1]
		}
		return r
	}
	for name, c := range map[string]struct {
		answer string
		close  bool
		want   Result // its Error is a prefix
		conns  int    // how many connections three deliveries need
	}{
		"length": {
			answer: ok + "Content-Length: 2\r\nX-A: 1\r\nX-A: 2\r\n\r\nok", conns: 1,
			want: Result{Response: &Response{Status: 200, Headers: map[string]string{"content-length": "2", "x-a": "1, 2"}, Body: "ok"}},
		},
		"no content": {
			answer: "HTTP/1.1 204 No Content\r\n\r\n", conns: 1,
			want: Result{Response: &Response{Status: 204, Headers: map[string]string{}}},
		},
		"chunked": {
			answer: ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", conns: 1,
			want: Result{Response: &Response{Status: 200, Headers: map[string]string{}, Body: "ok"}},
		},
		"until the connection ends": {
			answer: ok + "\r\nok", close: true, conns: 3,
			want: Result{Response: &Response{Status: 200, Headers: map[string]string{}, Body: "ok"}},
		},
		"asks to close": {
			answer: ok + "Connection: close\r\nContent-Length: 2\r\n\r\nok", conns: 3,
			want: Result{Response: okBody},
		},
		"informational responses first": {
			answer: "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + ok + "Content-Length: 2\r\n\r\nok",
			conns:  1, want: Result{Response: okBody},
		},
		"retry later": {
			answer: "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", conns: 1,
			want: Result{Error: "the destination answered 429", RetryAfter: 7 * time.Second, Response: empty(429, "retry-after", "7")},
		},
		"gone": {
			answer: "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", conns: 1,
			want: Result{Error: "the destination answered 410 and was disabled", Gone: true, Response: empty(410)},
		},
		"redirect": {
			answer: "HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", conns: 1,
			want: Result{Error: "the destination answered 301; redirects are not followed", Response: empty(301, "location", "/x")},
		},
		"less than announced": {
			answer: ok + "Content-Length: 20\r\n\r\nok", close: true, conns: 3,
			want: Result{Response: &Response{Status: 200, Headers: map[string]string{"content-length": "20"}, Body: "ok"}},
		},
		"large body": {
			answer: ok + "Content-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000), conns: 1,
			want: Result{Response: &Response{
				Status: 200, Headers: map[string]string{"content-length": "100000"}, Body: strings.Repeat("x", maxResponseBody),
			}},
		},
		"very large body": {
			answer: ok + "Content-Length: 1000000\r\n\r\n" + strings.Repeat("x", 1_000_000), conns: 3,
			want: Result{Response: &Response{
				Status: 200, Headers: map[string]string{"content-length": "1000000"}, Body: strings.Repeat("x", maxResponseBody),
			}},
		},
		"compressed body": {
			answer: ok + "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b!", conns: 1,
			want: Result{Response: &Response{
				Status: 200, Headers: map[string]string{"content-encoding": "gzip", "content-length": "3"}, Body: "\x1f\uFFFD!",
			}},
		},
		"other protocol": {answer: "SSH-2.0-OpenSSH\r\n\r\n", conns: 3, want: Result{Error: "the response is not valid HTTP"}},
		"endless headers": {
			answer: ok + "X: " + strings.Repeat("x", 2*maxResponseHeaders) + "\r\n\r\n", conns: 3,
			want: Result{Error: "the response is not valid HTTP"},
		},
		"contradictory lengths": {
			answer: ok + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok", conns: 3,
			want: Result{Error: "the response is not valid HTTP"},
		},
		"no response": {close: true, conns: 3, want: Result{Error: "the destination closed the connection"}},
		"broken off":  {answer: "HTTP/1.1 200", close: true, conns: 3, want: Result{Error: "the destination closed the connection"}},
		"switched protocol": {
			answer: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", conns: 3,
			want: Result{
				Error:    "the destination answered 101",
				Response: &Response{Status: 101, Headers: map[string]string{"connection": "Upgrade", "upgrade": "x"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newRawServer(t, answering(c.answer, c.close))
			client := newClient(t)
			for range 3 {
				got := client.Send(t.Context(), newPost(server.url))
				if got.Response != nil {
					got.Response.DurationMS = 0
				}
				if !strings.HasPrefix(got.Error, c.want.Error) || (got.Error == "") != (c.want.Error == "") {
					t.Errorf("error %q, want %q", got.Error, c.want.Error)
				}
				got.Error = c.want.Error
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
			// net/http closes a connection whose request it has not seen written soon after the response.
			if n := server.connections(); n < c.conns || n > 3 || c.conns == 1 && n == 3 {
				t.Errorf("%d connections, want %d", n, c.conns)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-7": 0, "0": 0, "x": 0, "1.5": 0, "99999999": maxRetryAfter, "99999999999999999999": 0,
		"Sun, 15 Nov 2026 08:31:00 GMT": time.Minute,
		"Sun, 15 Nov 2026 08:29:00 GMT": 0,
		"Sun, 15 Nov 2037 08:29:00 GMT": maxRetryAfter,
	} {
		if got := retryAfter(value, now()); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

func TestSilentDestinationTimesOut(t *testing.T) {
	for _, answer := range []string{"", "HTTP/1.1 2"} {
		result := sendToSilent(t, answer)
		if result.Error != "the destination did not answer within 0.05 s" || result.Response != nil {
			t.Errorf("after %q: %+v", answer, result)
		}
	}
}

// sendToSilent sends to a server that answers with a part of a response, or not at all. The clock of a
// synctest bubble stands still while a connection is made, however slow the machine is.
func sendToSilent(t *testing.T, answer string) (result Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		listener := make(pipetest.Listener)
		go func() {
			conn := <-listener
			answering(answer, false)(&rawServer{requests: map[string]int{}}, conn, bufio.NewReader(conn))
		}()
		client := newClient(t)
		client.transport.DialContext = listener.Dial
		r := newPost("http://127.0.0.1")
		r.Timeout = 50 * time.Millisecond
		result = client.Send(t.Context(), r)
	})
	return result
}

// TestStalledBodyIsCutOff has the server stop within the body. The attempt ends in time and its
// status counts. How long the first part takes depends on the machine, so the timeout grows until
// it arrives.
func TestStalledBodyIsCutOff(t *testing.T) {
	for length, want := range map[int]int{4: 4, maxResponseBody + 1: maxResponseBody} {
		server := newRawServer(t, answering(ok+"Content-Length: 99999\r\n\r\n"+strings.Repeat("x", length), false))
		client := newClient(t)
		r := newPost(server.url)
		var result Result
		for r.Timeout = 100 * time.Millisecond; result.Response == nil && r.Timeout < noTimeout; r.Timeout *= 2 {
			result = client.Send(t.Context(), r)
		}
		if result.Error != "" || result.Response == nil || len(result.Response.Body) != want {
			t.Errorf("%d bytes: %+v", length, result)
		}
	}
}

// TestCancellation ends an attempt with its context.
func TestCancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	}))
	defer target.Close()
	if result := newClient(t).Send(ctx, newPost(target.URL)); result.Error == "" || result.Response != nil {
		t.Errorf("result %+v", result)
	}
}

func TestConnectionsAreReused(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]bool{}
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.RemoteAddr] = true
		w.Write(make([]byte, 100<<10))
	}))
	defer target.Close()
	client := newClient(t)
	for range 5 {
		if result := client.Send(t.Context(), newPost(target.URL)); result.Error != "" {
			t.Fatal(result.Error)
		}
	}
	if len(seen) > 2 { // one may be closed whose request was not seen written soon enough
		t.Errorf("%d connections for 5 deliveries", len(seen))
	}
}

// TestNoProxy makes sure that the proxy of the environment is not used, which would bypass the
// egress check.
func TestNoProxy(t *testing.T) {
	if newClient(t).transport.Proxy != nil {
		t.Error("the transport uses a proxy")
	}
}

func TestTLS(t *testing.T) {
	for proto, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(proto, func(t *testing.T) {
			echo := func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(r.Proto)) }
			target := httptest.NewUnstartedServer(http.HandlerFunc(echo))
			target.EnableHTTP2 = http2
			target.StartTLS()
			defer target.Close()
			result := newClient(t).Send(t.Context(), newPost(target.URL))
			if !strings.Contains(result.Error, "certificate") {
				t.Errorf("unknown certificate: %+v", result)
			}
			client := newClient(t)
			client.transport.TLSClientConfig = target.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
			for range 3 {
				result := client.Send(t.Context(), newPost(target.URL))
				if result.Error != "" || result.Response.Body != proto {
					t.Errorf("result %+v", result)
				}
			}
		})
	}
}

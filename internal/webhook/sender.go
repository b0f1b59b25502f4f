package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// keptBody is how much of an answer is kept; drained is how much more is read to be able to use the connection again.
	keptBody = 16 << 10
	drained  = 256 << 10
	// keptHeaders bounds the headers of an answer.
	keptHeaders = 64 << 10
	// smallBody fits into the buffers of a connection, so that it can be written whole before anything is read.
	smallBody = 64 << 10
)

// HTTPSender sends deliveries over the network. It follows no redirect and uses no proxy: both would lead past the egress guard.
type HTTPSender struct {
	transport *http.Transport
	wires     *wires
	now       func() time.Time
}

// NewSender gives a sender that may go where egress allows.
func NewSender(egress Egress, now func() time.Time) *HTTPSender {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, Control: egress.control()}
	transport := &http.Transport{
		DialContext: dialer.DialContext, ForceAttemptHTTP2: true, MaxIdleConns: mostResting, MaxIdleConnsPerHost: mostRestingFor,
		IdleConnTimeout: restFor, TLSHandshakeTimeout: handshakeWithin, MaxResponseHeaderBytes: keptHeaders,
		DisableCompression: true, // an answer is kept as it came
	}
	return &HTTPSender{transport: transport, wires: newWires(transport), now: now}
}

// Close gives up idle connections.
func (s *HTTPSender) Close() {
	s.transport.CloseIdleConnections()
	s.wires.close()
}

// Send makes the request of an attempt and reads the beginning of its answer.
func (s *HTTPSender) Send(ctx context.Context, a Attempt) Outcome {
	req, err := s.request(ctx, a)
	if err != nil {
		return Outcome{Error: "the request could not be made: " + err.Error()}
	}
	start := time.Now()
	resp, err := s.roundTrip(req)
	if err != nil {
		return Outcome{Error: explain(ctx, a.Destination.Config.TimeoutSeconds, err)}
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, keptBody)) // the status decides; a body that breaks off is kept as far as it came
	out := Outcome{Response: &Response{
		Status: resp.StatusCode, Headers: flatten(resp.Header), Body: clean(string(body)), DurationMS: time.Since(start).Milliseconds(),
	}}
	if len(body) == keptBody {
		_, _ = io.CopyN(io.Discard, resp.Body, drained)
	}
	s.judge(&out, resp)
	return out
}

// roundTrip sends what is small over a wire, where the origin is known to speak that way.
func (s *HTTPSender) roundTrip(req *http.Request) (*http.Response, error) {
	origin := originOf(req.URL)
	if req.ContentLength <= smallBody && s.wires.speaks(origin) {
		return s.wires.roundTrip(origin, req)
	}
	resp, err := s.transport.RoundTrip(req)
	if err == nil {
		s.wires.learn(origin, resp)
	}
	return resp, err
}

// judge says what an answer means.
func (s *HTTPSender) judge(out *Outcome, resp *http.Response) {
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return
	case code >= 300 && code < 400:
		out.Error = fmt.Sprintf("the destination answered %d; redirects are not followed", code)
	case code == http.StatusGone:
		out.Error, out.Gone = "the destination answered 410 and was disabled", true
	default:
		out.Error = fmt.Sprintf("the destination answered %d", code)
	}
	out.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), s.now())
}

// maxRetryAfter is the longest pause that a destination may ask for.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads both forms of the header; 0 means that nothing useful was asked for.
func retryAfter(value string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(0, n), int(maxRetryAfter.Seconds()))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(0, at.Sub(now)), maxRetryAfter)
	}
	return 0
}

// dropped are headers of the original request that are not passed on: those of its connection, and those that were meant for us alone.
var dropped = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Proxy-Authenticate": true, "Proxy-Authorization": true, "Te": true,
	"Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "Host": true, "Content-Length": true, "Cookie": true,
	"Authorization": true, "Expect": true,
}

func (s *HTTPSender) request(ctx context.Context, a Attempt) (*http.Request, error) {
	r := a.Receipt
	req, err := http.NewRequestWithContext(ctx, r.Method, a.Destination.Config.URL, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	h := make(headers, len(r.Headers)+len(a.Destination.Config.Headers)+6)
	req.Header = http.Header(h)
	hop := strings.ToLower(r.Headers["connection"])
	h.set("User-Agent", "Steward/1") // unless the original has one
	for name, value := range r.Headers {
		key := http.CanonicalHeaderKey(name)
		if !dropped[key] && !listed(hop, name) && sendable(key, value) {
			h.set(key, value)
		}
	}
	for name, value := range a.Destination.Config.Headers {
		h.set(http.CanonicalHeaderKey(name), value)
	}
	at := s.now().Unix()
	h.set("Webhook-Id", r.ID)
	h.set("Webhook-Timestamp", strconv.FormatInt(at, 10))
	h.set("Webhook-Signature", sign(a.Key, r.ID, at, r.body))
	h.set("Steward-Delivery", a.Delivery.ID)
	h.set("Steward-Attempt", strconv.Itoa(a.Delivery.Retries))
	return req, nil
}

// headers are those of a request, by their canonical names.
type headers http.Header

func (h headers) set(key, value string) { h[key] = []string{value} }

// listed tells whether a Connection header names another header as its own.
func listed(connection, name string) bool {
	if connection == "" {
		return false
	}
	return slices.ContainsFunc(strings.Split(connection, ","), func(s string) bool { return strings.TrimSpace(s) == name })
}

// explain words an error of the network for the delivery's `error`.
func explain(ctx context.Context, timeout int, err error) string {
	switch {
	case errors.Is(err, errEgress):
		at := strings.Index(err.Error(), errEgress.Error())
		return err.Error()[at:]
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Sprintf("the destination did not answer within %d s", timeout)
	}
	return "the destination could not be reached: " + err.Error()
}

package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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
	start := time.Now()
	by := start.Add(time.Duration(a.Destination.Config.TimeoutSeconds) * time.Second)
	got, done, err := s.exchange(ctx, by, newMessage(a, s.now().Unix()))
	if err != nil {
		return Outcome{Error: explain(ctx, by, a.Destination.Config.TimeoutSeconds, err)}
	}
	defer done()
	defer got.body.Close()
	body, _ := io.ReadAll(io.LimitReader(got.body, keptBody)) // the status decides; a body that breaks off is kept as far as it came
	out := Outcome{Response: newAnswer(got.status, got.headers, clean(string(body)), time.Since(start))}
	if len(body) == keptBody {
		_, _ = io.CopyN(io.Discard, got.body, drained)
	}
	s.judge(&out, got)
	return out
}

// exchange sends what is simple over a wire, where the destination is known to speak that way. done is called when the answer was read.
func (s *HTTPSender) exchange(ctx context.Context, by time.Time, m message) (got reply, done func(), err error) {
	if at := s.wires.known(m.url); at != nil && m.simple() {
		got, err = s.wires.roundTrip(ctx, by, at, m)
		return got, func() {}, err
	}
	ctx, cancel := context.WithDeadline(ctx, by)
	req, err := m.request(ctx)
	var resp *http.Response
	if err == nil {
		resp, err = s.transport.RoundTrip(req)
	}
	if err != nil {
		cancel()
		return got, nil, err
	}
	s.wires.learn(m.url, req.URL, resp)
	return replyOf(resp), cancel, nil
}

// judge says what an answer means.
func (s *HTTPSender) judge(out *Outcome, got reply) {
	switch code := got.status; {
	case code >= 200 && code < 300:
		return
	case code >= 300 && code < 400:
		out.Error = fmt.Sprintf("the destination answered %d; redirects are not followed", code)
	case code == http.StatusGone:
		out.Error, out.Gone = "the destination answered 410 and was disabled", true
	default:
		out.Error = fmt.Sprintf("the destination answered %d", code)
	}
	out.RetryAfter = retryAfter(valueOf(got.headers, "retry-after"), s.now())
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

// explain words an error of the network for the delivery's `error`.
func explain(ctx context.Context, by time.Time, timeout int, err error) string {
	switch {
	case errors.Is(err, errEgress):
		at := strings.Index(err.Error(), errEgress.Error())
		return err.Error()[at:]
	case !time.Now().Before(by), errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Sprintf("the destination did not answer within %d s", timeout)
	}
	return "the destination could not be reached: " + err.Error()
}

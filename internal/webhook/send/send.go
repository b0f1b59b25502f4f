// Package send sends webhook deliveries over HTTP. It owns the connections to destinations and has no
// tables.
//
// A Client turns a Request into an HTTP request (request.go, header.go) and signs it the way Standard
// Webhooks prescribes (signature.go). It sends it over a net/http Transport that dials only addresses
// Egress permits (egress.go), and turns the response or the failure (failure.go) into a Result. It
// follows no redirects and uses no proxy, since both would bypass the egress check. The package knows
// nothing about webhooks, receipts or queues.
package send

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"syscall"
	"time"
)

const (
	// We keep the first maxResponseBody bytes of a response body, and read up to maxDrain more so that
	// the connection can be reused.
	maxResponseBody = 16 << 10
	maxDrain        = 256 << 10

	maxResponseHeaders = 64 << 10

	// maxRetryAfter is the longest delay that a destination can request.
	maxRetryAfter = 24 * time.Hour

	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 90 * time.Second

	// maxIdlePerHost is the highest concurrency that a destination can have.
	maxIdlePerHost = 100
	maxIdle        = 1000
)

// Request is one attempt to send a receipt to a destination.
type Request struct {
	Method     string
	URL        string
	Received   []Field           // the original request's headers: lower-case names, sorted, one value each
	Headers    map[string]string // the destination's own headers
	Body       []byte
	ReceiptID  string  // webhook-id
	DeliveryID string  // steward-delivery
	Attempt    int     // steward-attempt
	Signer     *Signer // nil for a request that is no delivery; it gets none of a delivery's headers
	Timeout    time.Duration
	// Traceparent replaces the original request's; "" leaves it.
	Traceparent string
}

// Result is an attempt's outcome. An empty Error means success.
type Result struct {
	Error    string
	Response *Response
	// RetryAfter is the delay that the destination requested, or 0.
	RetryAfter time.Duration
	// Gone reports whether the destination wants no further deliveries.
	Gone bool
}

// Response is a destination's response.
type Response struct {
	Status     int               `json:"status" example:"200"`
	Headers    map[string]string `json:"headers" example:"{\"content-type\":\"application/json\",\"user-agent\":\"shop/2.1\"}"`
	Body       string            `json:"body" doc:"The first 16 KiB" example:"ok"`
	DurationMS int64             `json:"duration_ms" example:"84"`
}

// Sender makes attempts: a Client, or a network that a test makes up. Send returns when ctx ends.
type Sender interface {
	Send(ctx context.Context, r Request) Result
}

// Client sends requests. It is safe for concurrent use.
type Client struct {
	transport *http.Transport
	now       func() time.Time
}

// New returns a client that connects only to addresses that egress permits.
func New(egress Egress, now func() time.Time) *Client {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second, Control: egress.control()}
	dialContext := func(ctx context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, dialer, network, address)
	}
	return &Client{now: now, transport: &http.Transport{
		DialContext:            dialContext,
		TLSHandshakeTimeout:    handshakeTimeout,
		MaxIdleConns:           idleLimit(),
		MaxIdleConnsPerHost:    maxIdlePerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxResponseHeaders,
		DisableCompression:     true, // we store the response as the destination sent it
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, MaxReceiveBufferPerStream: maxDrain},
	}}
}

// idleLimit bounds the idle connections to an eighth of the process's file descriptors.
func idleLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return maxIdlePerHost
	}
	return int(min(limit.Cur/8, maxIdle)) + 1 // 0 would mean no limit
}

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Send makes one attempt and waits until it ends, for at most r.Timeout.
func (c *Client) Send(ctx context.Context, r Request) Result {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	start := time.Now()
	resp, err := c.roundTrip(ctx, abort, r)
	if err != nil {
		return Result{Error: describe(ctx, r, err)}
	}
	body := readBody(resp)
	result := c.evaluate(resp)
	result.Response = &Response{
		Status: resp.StatusCode, Headers: flatten(resp.Header), Body: CleanText(string(body)),
		DurationMS: time.Since(start).Milliseconds(),
	}
	return result
}

// roundTrip sends the request. If the transport picked an idle connection that the destination had
// closed, we start again: the transport does that by itself only for some methods.
func (c *Client) roundTrip(ctx context.Context, abort context.CancelCauseFunc, r Request) (*http.Response, error) {
	for {
		guard := &sendGuard{abort: abort}
		traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: guard.gotConn})
		req, err := newRequest(traced, r, c.now())
		if err != nil {
			return nil, errRequest
		}
		resp, err := c.transport.RoundTrip(req)
		switch {
		case err == nil:
			return resp, nil
		case guard.sends > 0:
			return nil, err
		case !guard.stale:
			return nil, &connectError{err}
		}
	}
}

// readBody returns the start of the response body and closes it. The status alone decides about
// success, so a body that breaks off or stalls is not an error.
func readBody(resp *http.Response) []byte {
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil // another protocol follows, and the context would not stop us from reading it
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxResponseBody))
	if len(body) == maxResponseBody {
		_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
	}
	return body
}

// evaluate derives the delivery's result from a response's status and headers.
func (c *Client) evaluate(resp *http.Response) Result {
	code := resp.StatusCode
	if code >= 200 && code < 300 {
		return Result{}
	}
	result := Result{
		Error:      fmt.Sprintf("the destination answered %d", code),
		RetryAfter: retryAfter(resp.Header.Get("Retry-After"), c.now()),
	}
	switch {
	case code >= 300 && code < 400:
		result.Error += "; redirects are not followed"
	case code == http.StatusGone:
		result.Error += " and was disabled"
		result.Gone = true
	}
	return result
}

// retryAfter parses both forms of the Retry-After header. It returns 0 if the value is missing,
// invalid or in the past.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(0, seconds), int(maxRetryAfter/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(0, at.Sub(now)), maxRetryAfter)
	}
	return 0
}

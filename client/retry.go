package client

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"
)

// backoff decides how long to wait before a retry.
type backoff struct {
	client  *Client
	retries int
	waited  time.Duration
}

// firstWait is the wait before the first retry if the server names none. It doubles with each retry.
const firstWait = 250 * time.Millisecond

// next returns how long to wait before the next attempt, given the last one's outcome, and reports
// whether there should be one. safe means that we may repeat the request even if the server may already
// have processed it.
func (b *backoff) next(ctx context.Context, res *Response, err error, safe bool) (time.Duration, bool) {
	if ctx.Err() != nil || !repeats(res, err, safe) || b.retries >= b.client.MaxRetries {
		return 0, false
	}
	wait := firstWait << min(b.retries, 16)
	if asked, ok := retryAfter(res); ok {
		wait = asked
	}
	wait += rand.N(wait/4 + time.Millisecond) // so that clients that failed together do not return together
	if b.waited+wait > b.client.MaxWait {
		return 0, false
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
		return 0, false
	}
	b.retries++
	b.waited += wait
	return wait, true
}

// repeats reports whether we should retry after this outcome.
func repeats(res *Response, err error, safe bool) bool {
	if err == nil {
		return res.Status == http.StatusTooManyRequests || res.Status == http.StatusServiceUnavailable
	}
	return safe && isNetworkError(err) || isDialError(err)
}

// canRepeat reports whether we may repeat a request even if the server may already have processed it. A
// second DELETE, or PUT with If-Match, would fail because the first succeeded.
func (r request) canRepeat(header http.Header) bool {
	switch r.method {
	case http.MethodGet, http.MethodHead:
		return true
	case http.MethodPut:
		return header.Get("If-Match") == ""
	case http.MethodPost:
		return r.repeatable
	}
	return false
}

// isDialError reports whether there was no connection, so the server has not seen the request. It
// excludes hosts that do not exist, since a retry would not change that.
func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" && !isNoHost(err)
}

func isNoHost(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

// retryAfter returns the wait that a response asks for, in seconds or until a date.
func retryAfter(res *Response) (time.Duration, bool) {
	if res == nil {
		return 0, false
	}
	value := res.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(time.Until(date), 0), true
	}
	return 0, false
}

func (c *Client) logRetry(ctx context.Context, r request, res *Response, err error, wait time.Duration) {
	if c.Log == nil {
		return
	}
	reason := slog.Any("error", err)
	if err == nil {
		reason = slog.Int("status", res.Status)
	}
	c.Log.WarnContext(ctx, "request is repeated", "method", r.method, "path", r.path, reason, "wait", wait)
}

// sleep waits, or returns the context's error.
func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

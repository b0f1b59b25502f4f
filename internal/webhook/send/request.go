package send

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const userAgent = "Steward/1"

// newRequest returns an attempt's HTTP request. Later headers replace earlier ones: first the original
// request's, then the destination's, then Steward's own.
func newRequest(ctx context.Context, r Request, now time.Time) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", userAgent)
	forward(req.Header, r.Received)
	if r.Traceparent != "" {
		req.Header.Set("Traceparent", r.Traceparent)
	}
	for name, value := range r.Headers {
		req.Header.Set(name, value)
	}
	if r.Signer == nil {
		return req, nil
	}
	req.Header.Set("Webhook-Id", r.ReceiptID)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("Webhook-Signature", r.Signer.signatures(r.ReceiptID, now, r.Body))
	req.Header.Set("Steward-Delivery", r.DeliveryID)
	req.Header.Set("Steward-Attempt", strconv.Itoa(r.Attempt))
	return req, nil
}

// forward adds the original request's headers, except those that belong to its connection or were
// meant for Steward.
func forward(to http.Header, received []Field) {
	connection := connectionOptions(Value(received, "connection"))
	for _, f := range received {
		if !notForwarded[f.Name] && !connection[f.Name] && Sendable(f.Name, f.Value) {
			to.Set(f.Name, f.Value)
		}
	}
}

// notForwarded are the headers that we do not send on, in addition to those that Sendable refuses.
var notForwarded = map[string]bool{
	"accept-encoding": true, "authorization": true, "cookie": true, "expect": true,
	"proxy-authenticate": true, "proxy-authorization": true,
}

// connectionOptions returns the names in a Connection header, in lower case, or nil without one.
func connectionOptions(value string) map[string]bool {
	if value == "" {
		return nil
	}
	options := map[string]bool{}
	for option := range strings.SplitSeq(value, ",") {
		options[strings.ToLower(strings.TrimSpace(option))] = true
	}
	return options
}

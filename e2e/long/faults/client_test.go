package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/sink"
)

type object = map[string]any

// attempt bounds one request. Only a request that hangs takes so long.
const attempt = installation.RequestTimeout

// tenant is an organization of a cluster.
type tenant struct {
	t       testing.TB
	cluster *cluster
	key     string
	orgID   string
	http    *http.Client

	sink *sink.Sink        // of its webhook
	hook installation.Hook // whose destination is at / of the sink
	gate *gate             // of the sink

	mu    sync.Mutex
	acked map[int]string // ids of receipts by the number of the write
}

// newTenant returns the organization of a key.
func newTenant(c *cluster, key string) *tenant {
	u := &tenant{t: c.t, cluster: c, key: key, http: &http.Client{Timeout: attempt}, acked: map[int]string{}}
	var profile struct{ Organizations []struct{ ID string } }
	u.must(u.call(context.Background(), "GET", c.api+"/cli/auth/user", nil, &profile))
	u.orgID = profile.Organizations[0].ID
	return u
}

func (u *tenant) must(err error) {
	u.t.Helper()
	if err != nil {
		u.t.Fatal(err)
	}
}

// statusError is a response that is not a success.
type statusError struct {
	status     int
	retryAfter string
	body       string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %.200s", e.status, e.body) }

// call sends a request with the tenant's key and decodes the response, unless into is nil. Headers come
// in pairs.
func (u *tenant) call(ctx context.Context, method, url string, body, into any, headers ...string) error {
	_, err := u.send(ctx, method, url, body, into, headers...)
	return err
}

func (u *tenant) send(ctx context.Context, method, url string, body, into any, headers ...string) (http.Header, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		u.must(err)
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, content)
	u.must(err)
	r.Header.Set("Authorization", "Bearer "+u.key)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := u.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= 300 {
		return nil, &statusError{res.StatusCode, res.Header.Get("Retry-After"), string(text)}
	}
	if into == nil {
		return res.Header, nil
	}
	return res.Header, json.Unmarshal(text, into)
}

// entry is an entry of a list.
type entry struct {
	ID, Name, Status string
	Payload          json.RawMessage // of a receipt
}

// list returns all entries of a list. It returns an error if the list's total is not their number.
func (u *tenant) list(ctx context.Context, path string) (all []entry, err error) {
	total := ""
	for path != "" {
		var page []entry
		header, err := u.send(ctx, "GET", u.cluster.api+path, nil, &page)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		total = header.Get("X-Total-Count")
		path = (&installation.Response{Header: header}).Next()
	}
	if total != "" && total != fmt.Sprint(len(all)) {
		return nil, fmt.Errorf("%d entries, of which %s are counted", len(all), total)
	}
	return all, nil
}

package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

type object = map[string]any

// attempt bounds one request. It is longer than a statement of the server may take.
const attempt = 20 * time.Second

// tenant is an organization of a cluster.
type tenant struct {
	t       testing.TB
	cluster *cluster
	key     string
	orgID   string
	http    *http.Client
}

// newTenant returns the organization of a key.
func newTenant(c *cluster, key string) *tenant {
	u := &tenant{t: c.t, cluster: c, key: key, http: &http.Client{Timeout: attempt}}
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
	status int
	body   string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %.200s", e.status, e.body) }

// call sends a request with the tenant's key and decodes the response, unless into is nil. Headers come
// in pairs.
func (u *tenant) call(ctx context.Context, method, url string, body, into any, headers ...string) error {
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
		return err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode >= 300 {
		return &statusError{res.StatusCode, string(text)}
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

package clientauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"

	"steward/internal/oidc"
)

const (
	// fetchTimeout bounds a whole request for keys or a document, including the response's body.
	fetchTimeout = 5 * time.Second
	// maxKeySet bounds how many bytes we read of a response, maxKeys how many keys we keep from it.
	maxKeySet = 64 << 10
	maxKeys   = 20
	// maxSets bounds how many clients we keep keys for.
	maxSets = 1000
	// maxFetches bounds the requests in flight, maxFetchesOfOrg the ones for a single organization's
	// clients.
	maxFetches      = 64
	maxFetchesOfOrg = 8
	// fetchInterval is the least time between two requests for the same client's keys.
	fetchInterval = time.Minute
	// We use keys for freshFor without asking again, and for staleFor while requests fail.
	freshFor = 10 * time.Minute
	staleFor = 24 * time.Hour
)

// Keys holds the keys that clients publish at a jwks_uri, and requests their documents. It is safe for
// concurrent use.
//
// We request a client's keys when we first need them, when they are no longer fresh, and when none of
// them verifies an assertion, since the client may have a new one. At least a minute passes between two
// requests, so forged assertions cannot make us flood the client. Each replica keeps its own keys.
type Keys struct {
	now    func() time.Time
	http   *http.Client
	flight singleflight.Group

	mu      sync.Mutex
	sets    map[source]keySet
	fetches map[string]int // in flight, by organization
	total   int            // in flight
}

// source names a client and the URI at which it publishes its keys.
type source struct{ clientID, uri string }

// keySet holds a client's keys from the last request that succeeded.
type keySet struct {
	keys            []jose.JSONWebKey
	read, attempted time.Time
}

// NewKeys returns an empty Keys that sends its requests through transport. The transport decides which
// addresses we may connect to. We follow no redirects.
func NewKeys(transport http.RoundTripper, now func() time.Time) *Keys {
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Keys{
		now: now, http: &http.Client{Transport: transport, Timeout: fetchTimeout, CheckRedirect: stay},
		sets: map[source]keySet{}, fetches: map[string]int{},
	}
}

// find reports whether accepts approves a client's keys: the ones that we hold, or else the ones that the
// client publishes now.
func (k *Keys) find(ctx context.Context, c *oidc.Registered, accepts func([]jose.JSONWebKey) bool) bool {
	from := source{c.ID, *c.JWKSURI}
	now := k.now()
	kept := k.kept(from)
	fresh := now.Sub(kept.read) < freshFor
	if fresh && accepts(kept.keys) {
		return true
	}
	if now.Sub(kept.attempted) >= fetchInterval {
		k.refresh(ctx, c.OrgID, from)
		kept = k.kept(from)
	} else if fresh {
		return false
	}
	return now.Sub(kept.read) < staleFor && accepts(kept.keys)
}

func (k *Keys) kept(from source) keySet {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sets[from]
}

// refresh requests a client's keys, joining a request that is already in flight. It returns when the
// request or ctx ends.
func (k *Keys) refresh(ctx context.Context, orgID string, from source) {
	done := k.flight.DoChan(from.clientID+" "+from.uri, func() (any, error) {
		due := k.now().Sub(k.kept(from).attempted) >= fetchInterval // unless another one has just ended
		if due && k.begin(orgID) {
			defer k.end(orgID)
			keys, err := k.fetch(context.WithoutCancel(ctx), from.uri)
			k.store(from, keys, err)
		}
		return nil, nil
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// begin reports whether we may send another request for an organization's clients. If so, the caller must
// call end.
func (k *Keys) begin(orgID string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.total >= maxFetches || k.fetches[orgID] >= maxFetchesOfOrg {
		return false
	}
	k.total++
	k.fetches[orgID]++
	return true
}

// end gives back a place that begin granted.
func (k *Keys) end(orgID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.total--
	k.fetches[orgID]--
	if k.fetches[orgID] == 0 {
		delete(k.fetches, orgID)
	}
}

// store keeps a request's keys. After an error the previous ones stay.
func (k *Keys) store(from source, keys []jose.JSONWebKey, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	set, known := k.sets[from]
	set.attempted = k.now()
	if err == nil {
		set.keys = keys
		set.read = set.attempted
	}
	if !known && len(k.sets) >= maxSets {
		for other := range k.sets { // any one will do
			delete(k.sets, other)
			break
		}
	}
	k.sets[from] = set
}

func (k *Keys) fetch(ctx context.Context, uri string) ([]jose.JSONWebKey, error) {
	_, text, err := k.get(ctx, uri, "application/jwk-set+json, application/json", maxKeySet)
	if err != nil {
		return nil, err
	}
	return oidc.ParseKeys(text, maxKeys)
}

// get requests a URI and fails if the response has more than limit bytes.
func (k *Keys) get(ctx context.Context, uri, accept string, limit int64) (http.Header, []byte, error) {
	if k.http.Transport == nil { // http.Client's default would connect to any address
		return nil, nil, errors.New("request: there is no transport")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Accept", accept)
	resp, err := k.http.Do(req)
	if err != nil {
		return nil, nil, fmt.Errorf("request: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("request: status %d", resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read response: %w", err)
	}
	if int64(len(text)) > limit {
		return nil, nil, fmt.Errorf("read response: more than %d bytes", limit)
	}
	return resp.Header, text, nil
}

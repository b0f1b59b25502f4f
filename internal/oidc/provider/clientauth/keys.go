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
	// fetchTimeout bounds a request for keys or a document, including its response.
	fetchTimeout = 5 * time.Second
	// maxKeySet caps the bytes we read from a response, and maxKeys the keys we keep.
	maxKeySet = 64 << 10
	maxKeys   = 20
	// maxSets caps the clients whose keys we keep.
	maxSets = 1000
	// maxFetches caps the requests in flight, and maxFetchesOfOrg those for one organization's clients.
	maxFetches      = 64
	maxFetchesOfOrg = 8
	// fetchInterval is the minimum time between two requests for a client's keys.
	fetchInterval = time.Minute
	// We use keys for freshFor without another request, and for staleFor while requests fail.
	freshFor = 10 * time.Minute
	staleFor = 24 * time.Hour
)

// Keys has the keys that clients publish at a jwks_uri, and requests their documents. It is safe for
// concurrent use.
//
// We request a client's keys when we first need them, when they are no longer fresh, and when none of
// them verifies an assertion, since the client may have a new one. At least a minute passes between two
// requests, so that made-up assertions cannot cause more. Each replica has its own keys.
type Keys struct {
	now    func() time.Time
	http   *http.Client
	flight singleflight.Group

	mu      sync.Mutex
	sets    map[source]keySet
	fetches map[string]int // in flight, by organization
	total   int            // in flight
}

// source is the place where a client publishes its keys.
type source struct{ clientID, uri string }

// keySet has a client's keys from the last request that succeeded.
type keySet struct {
	keys            []jose.JSONWebKey
	read, attempted time.Time
}

// NewKeys returns Keys that sends its requests with transport. The transport decides which addresses
// they may reach. Redirects are not followed.
func NewKeys(transport http.RoundTripper, now func() time.Time) *Keys {
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Keys{
		now: now, http: &http.Client{Transport: transport, Timeout: fetchTimeout, CheckRedirect: stay},
		sets: map[source]keySet{}, fetches: map[string]int{},
	}
}

// find reports whether accepts takes the client's keys: the ones we keep, or else the ones the client
// publishes now.
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

// refresh requests a client's keys, sharing the request with all concurrent callers. It returns when
// the request or ctx ends.
func (k *Keys) refresh(ctx context.Context, orgID string, from source) {
	done := k.flight.DoChan(from.clientID+" "+from.uri, func() (any, error) {
		due := k.now().Sub(k.kept(from).attempted) >= fetchInterval // unless another request has just ended
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

// begin reports whether we may send another request for an organization's clients.
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

// end releases the slot that begin took. Call it if begin returned true.
func (k *Keys) end(orgID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.total--
	k.fetches[orgID]--
	if k.fetches[orgID] == 0 {
		delete(k.fetches, orgID)
	}
}

// store keeps a request's result. After an error, the earlier keys stay.
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
		for other := range k.sets { // any one
			delete(k.sets, other)
			break
		}
	}
	k.sets[from] = set
}

// fetch requests the keys at a URI.
func (k *Keys) fetch(ctx context.Context, uri string) ([]jose.JSONWebKey, error) {
	_, text, err := k.get(ctx, uri, "application/jwk-set+json, application/json", maxKeySet)
	if err != nil {
		return nil, err
	}
	return oidc.ParseKeys(text, maxKeys)
}

// get requests the text that a client publishes at a URI, up to limit bytes.
func (k *Keys) get(ctx context.Context, uri, accept string, limit int64) (http.Header, []byte, error) {
	if k.http.Transport == nil { // the default one would connect to any address
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

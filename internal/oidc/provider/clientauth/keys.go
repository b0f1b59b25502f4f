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
	// fetchTimeout bounds a request for keys or a document, with its response.
	fetchTimeout = 5 * time.Second
	// maxKeySet bounds what is read of a response, and maxKeys the keys that are kept.
	maxKeySet = 64 << 10
	maxKeys   = 20
	// maxSets bounds the clients whose keys are kept.
	maxSets = 1000
	// maxFetches bounds the requests in flight, and maxFetchesOfOrg those for the clients of one
	// organization.
	maxFetches      = 64
	maxFetchesOfOrg = 8
	// fetchInterval is the least time between two requests for the keys of a client.
	fetchInterval = time.Minute
	// freshFor is how long keys are used without a request, and staleFor how long they are used while
	// requests fail.
	freshFor = 10 * time.Minute
	staleFor = 24 * time.Hour
)

// Keys has the keys that clients publish at a jwks_uri, and requests their documents. It is safe for concurrent use.
//
// The keys of a client are requested when they are needed first, when they are no longer fresh, and when none of
// them verifies an assertion, since the client may have a new one. Between two requests at least a minute
// passes, so that whoever invents assertions makes no more of them. Each replica has keys of its own.
type Keys struct {
	now    func() time.Time
	http   *http.Client
	flight singleflight.Group

	mu      sync.Mutex
	sets    map[source]keySet
	fetches map[string]int // in flight, by organization
	total   int            // in flight
}

// source is where a client publishes its keys.
type source struct{ clientID, uri string }

// keySet are the keys of a client. They are those of the last request that succeeded.
type keySet struct {
	keys            []jose.JSONWebKey
	read, attempted time.Time
}

// NewKeys returns the keys of clients, which are requested with transport. It decides to which addresses
// requests are sent; redirects are not followed.
func NewKeys(transport http.RoundTripper, now func() time.Time) *Keys {
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Keys{
		now: now, http: &http.Client{Transport: transport, Timeout: fetchTimeout, CheckRedirect: stay},
		sets: map[source]keySet{}, fetches: map[string]int{},
	}
}

// find reports whether the keys of a client satisfy a condition: those that are kept, or else those that the
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

// refresh requests the keys of a client, together with all others who want to do so. It returns when the request
// has ended, or ctx.
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

// begin reports whether another request may be sent for the clients of an organization.
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

// end is to be called after a request for which begin returned true.
func (k *Keys) end(orgID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.total--
	k.fetches[orgID]--
	if k.fetches[orgID] == 0 {
		delete(k.fetches, orgID)
	}
}

// store keeps what a request returned. After an error, the keys of before stay.
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

// get requests what a client publishes at a URI, of at most limit bytes.
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

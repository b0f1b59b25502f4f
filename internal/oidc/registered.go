package oidc

import (
	"context"
	"slices"
	"sync"

	"github.com/go-jose/go-jose/v4"

	"steward/internal/errs"
	"steward/internal/id"
)

// Registered is a client as the protocol uses it. It is shared through a cache, so do not modify it.
// Its AllowedUserIDs are sorted.
type Registered struct {
	Client
	// Epoch increments when all the client's users are revoked. Every user's token carries it.
	Epoch int64
	// SecretHash is empty for clients without a secret.
	SecretHash []byte
	// Keys has the parsed Client.JWKS.
	Keys []jose.JSONWebKey
	// Suspended reports whether the organization was deleted. The client then gets no tokens.
	Suspended bool
}

// HasSecret reports in constant time whether a presented secret is the client's.
func (r *Registered) HasSecret(presented string) bool {
	return sameSecret(r.SecretHash, presented) && r.AuthMethod.hasSecret()
}

// Allows reports whether allowed_user_ids is empty or has the user. Store.Admits checks is_public too.
func (r *Registered) Allows(userID string) bool {
	if len(r.AllowedUserIDs) == 0 {
		return true
	}
	_, found := slices.BinarySearch(r.AllowedUserIDs, userID)
	return found
}

// MayRedirect reports whether authorization responses may be sent to a URI.
func (r *Registered) MayRedirect(uri string) bool { return matches(r.RedirectURIs, uri) }

// Covers reports whether a redirect URI was registered when the user consented. For a newer one we must
// ask the user again: whoever added it would otherwise get codes without the user's knowledge.
func (r *Registered) Covers(given *Consent, redirectURI string) bool {
	return slices.ContainsFunc(r.RedirectURIs, func(registered string) bool {
		return sameURI(registered, redirectURI) && r.redirectsSince[registered] <= given.ClientVersion
	})
}

// AsksEachTime reports whether we must ask users for consent on every request to a redirect URI. Any
// application on a device can pose as a public client there (RFC 8252 section 8.6), and nobody vouches
// for a client that registered itself.
func (r *Registered) AsksEachTime(redirectURI string) bool {
	return r.Registration != "" || r.ClientType == Public && isNative(redirectURI)
}

// MayRedirectAfterLogout reports whether we may send a user to a URI after signing out.
func (r *Registered) MayRedirectAfterLogout(uri string) bool {
	return matches(r.PostLogoutRedirectURIs, uri)
}

// Forget empties the cache. Call it when Cache or auth.Callers is invalidated.
func (s *Store) Forget() { s.cache.empty() }

// Lookup returns a client in any organization, from the cache if possible. It returns NotFound if there
// is none.
func (s *Store) Lookup(ctx context.Context, clientID string) (*Registered, error) {
	if r := s.cache.client(clientID); r != nil {
		return r, nil
	}
	return s.readClient(ctx, clientID)
}

// readClient reads a client into the cache. It returns NotFound if there is none.
func (s *Store) readClient(ctx context.Context, clientID string) (*Registered, error) {
	if !id.Is(id.Client, clientID) && clientID != CLIClientID && !IsDocumentURI(clientID) {
		return nil, errs.New(errs.NotFound, "the client does not exist")
	}
	generation := s.cache.current()
	r, err := s.registered(ctx, clientID)
	if err != nil {
		return nil, err
	}
	s.cache.storeClient(r, generation)
	return r, nil
}

// readUser reads a user's relation to a client into the cache.
func (s *Store) readUser(ctx context.Context, r *Registered, u clientUser) (userState, error) {
	generation := s.cache.current()
	state, err := s.userState(ctx, r.OrgID, u)
	if err != nil {
		return userState{}, err
	}
	if state != (userState{}) {
		s.cache.storeUser(u, state, generation)
	}
	return state, nil
}

// CheckSecret returns the client if the secret is right. An unknown client, a client without a secret
// and a wrong secret get the same Unauthorized.
func (s *Store) CheckSecret(ctx context.Context, clientID, secret string) (*Registered, error) {
	r, err := s.Accept(ctx, clientID, func(r *Registered) bool { return r.HasSecret(secret) })
	if r == nil {
		sameSecret(nil, secret) // takes as long as a comparison
	}
	return r, err
}

// Accept returns a client if accepts takes its credentials. Unknown clients and refused ones get the
// same Unauthorized. If the cached client is refused, we check the stored one too, so that new
// credentials work at once on every replica.
func (s *Store) Accept(ctx context.Context, clientID string, accepts func(*Registered) bool) (*Registered, error) {
	refused := errs.New(errs.Unauthorized, "the client or its credentials are wrong")
	cached := s.cache.client(clientID)
	if cached != nil && accepts(cached) {
		return cached, nil
	}
	r, err := s.readClient(ctx, clientID)
	if errs.KindOf(err) == errs.NotFound {
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	unchanged := cached != nil && cached.version == r.version
	if unchanged || !accepts(r) {
		return nil, refused
	}
	return r, nil
}

// Admits reports whether a user may use a client: allowed_user_ids lets the user in, and the client is
// public or the user belongs to its organization.
func (s *Store) Admits(ctx context.Context, r *Registered, userID string) (bool, error) {
	if !r.Allows(userID) {
		return false, nil
	}
	if r.IsPublic {
		return true, nil
	}
	u := clientUser{r.ID, userID}
	if s.cache.user(u).member {
		return true, nil
	}
	state, err := s.readUser(ctx, r, u)
	return state.member, err
}

// Live reports whether a token with these epochs is valid: the client exists, neither the user nor all
// users were revoked since, and the client still admits the user. A token without a user has an empty
// userID and consentEpoch 0, and is valid while the client may act as itself.
func (s *Store) Live(ctx context.Context, clientID, userID string, clientEpoch, consentEpoch int64) (bool, error) {
	live := func(r *Registered) bool {
		if userID == "" {
			return consentEpoch == 0 && slices.Contains(r.GrantTypes, ClientCredentials)
		}
		return consentEpoch != 0 && r.Epoch == clientEpoch && r.Allows(userID)
	}
	r := s.cache.client(clientID)
	if r == nil || !live(r) {
		var err error
		r, err = s.readClient(ctx, clientID)
		if errs.KindOf(err) == errs.NotFound {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	if !live(r) || userID == "" {
		return live(r), nil
	}
	return s.userLive(ctx, r, clientUser{clientID, userID}, consentEpoch)
}

func (s *Store) userLive(ctx context.Context, r *Registered, u clientUser, consentEpoch int64) (bool, error) {
	live := func(state userState) bool { return state.consent == consentEpoch && (r.IsPublic || state.member) }
	if live(s.cache.user(u)) {
		return true, nil
	}
	state, err := s.readUser(ctx, r, u)
	return live(state), err
}

// maxCached caps each map in the cache. We empty a map when it is full.
const maxCached = 100_000

type clientUser struct{ clientID, userID string }

// userState is a user's relation to a client: the consent's epoch, or 0 without a consent, and whether
// the user belongs to the client's organization.
type userState struct {
	consent int64
	member  bool
}

// cache remembers rights as we last read them. We trust a positive answer, because every transaction
// that takes a right away empties the cache. We read again before a negative one, so that a right just
// given on another replica is not refused here.
type cache struct {
	mu      sync.RWMutex
	clients map[string]*Registered
	users   map[clientUser]userState
	// generation increments whenever the cache is emptied. Never store a value read in an earlier
	// generation.
	generation uint64
}

func (c *cache) client(clientID string) *Registered {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.clients[clientID]
}

func (c *cache) user(u clientUser) userState {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.users[u]
}

func (c *cache) current() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.generation
}

func (c *cache) storeClient(r *Registered, generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.generation != generation {
		return
	}
	if c.clients == nil || len(c.clients) >= maxCached {
		c.clients = map[string]*Registered{}
	}
	c.clients[r.ID] = r
}

func (c *cache) storeUser(u clientUser, s userState, generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.generation != generation {
		return
	}
	if c.users == nil || len(c.users) >= maxCached {
		c.users = map[clientUser]userState{}
	}
	c.users[u] = s
}

func (c *cache) empty() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients = nil
	c.users = nil
	c.generation++
}

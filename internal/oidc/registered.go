package oidc

import (
	"context"
	"slices"
	"sync"

	"steward/internal/errs"
	"steward/internal/id"
)

// Registered is a client with what the protocol needs beside its fields. It is shared by the cache: nobody changes it. Its
// AllowedUserIDs are sorted.
type Registered struct {
	Client
	// Epoch is raised when all users of the client are revoked; it goes into every token.
	Epoch int64
	// SecretHash is empty for a public client.
	SecretHash []byte
}

// HasSecret tells, in constant time, whether a presented secret is the client's.
func (r *Registered) HasSecret(presented string) bool { return sameSecret(r.SecretHash, presented) }

// Allows tells whether allowed_user_ids lets a user in; an empty list lets everybody. Store.Admits asks is_public too.
func (r *Registered) Allows(userID string) bool {
	if len(r.AllowedUserIDs) == 0 {
		return true
	}
	_, found := slices.BinarySearch(r.AllowedUserIDs, userID)
	return found
}

// MayRedirect tells whether an authorization answer may go to that address.
func (r *Registered) MayRedirect(uri string) bool { return matches(r.RedirectURIs, uri) }

// MayReturn tells whether a user may be sent to that address after signing out.
func (r *Registered) MayReturn(uri string) bool { return matches(r.PostLogoutRedirectURIs, uri) }

// maxCached bounds each part of the cache; beyond it that part is forgotten and read again.
const maxCached = 100_000

// standing is what a user is to a client: the consent's number, 0 for none, and whether they are a member of the client's organization.
type standing struct {
	consent int64
	member  bool
}

type pair struct{ clientID, userID string }

// cache holds what was allowed when it was read. A yes from it is trusted, since whatever takes a right away empties it; a no is always
// read again, so that what was just given on another replica is not refused here.
type cache struct {
	mu      sync.RWMutex
	clients map[string]*Registered
	users   map[pair]standing
	// round counts how often the cache was emptied: what was read before must not enter it after.
	round uint64
}

func (c *cache) client(clientID string) *Registered {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.clients[clientID]
}

func (c *cache) user(p pair) standing {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.users[p]
}

func (c *cache) current() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.round
}

func (c *cache) keepClient(r *Registered, round uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.round != round {
		return
	}
	if c.clients == nil || len(c.clients) >= maxCached {
		c.clients = map[string]*Registered{}
	}
	c.clients[r.ID] = r
}

func (c *cache) keepUser(p pair, s standing, round uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.round != round {
		return
	}
	if c.users == nil || len(c.users) >= maxCached {
		c.users = map[pair]standing{}
	}
	c.users[p] = s
}

// Forget empties the cache. It is to be called when Cache or auth.Callers was bumped.
func (s *Store) Forget() {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	s.cache.clients, s.cache.users = nil, nil
	s.cache.round++
}

// Lookup gives a client of any organization, from memory where it can. An unknown one is NotFound.
func (s *Store) Lookup(ctx context.Context, clientID string) (*Registered, error) {
	if r := s.cache.client(clientID); r != nil {
		return r, nil
	}
	return s.fresh(ctx, clientID)
}

// fresh reads a client past the cache. Text that cannot be an id is not looked up.
func (s *Store) fresh(ctx context.Context, clientID string) (*Registered, error) {
	if !id.Is(id.Client, clientID) {
		return nil, errs.New(errs.NotFound, "there is no such client")
	}
	round := s.cache.current()
	r, err := s.registered(ctx, clientID)
	if err == nil {
		s.cache.keepClient(r, round)
	}
	return r, err
}

// CheckSecret gives the client whose secret that is. An unknown client, a public one and a wrong secret are the same Unauthorized. A secret
// that does not fit what is cached is compared with what is stored, so that a new one works at once on every replica.
func (s *Store) CheckSecret(ctx context.Context, clientID, secret string) (*Registered, error) {
	refused := errs.New(errs.Unauthorized, "the client or its secret is not known")
	r := s.cache.client(clientID)
	if r != nil && r.HasSecret(secret) {
		return r, nil
	}
	r, err := s.fresh(ctx, clientID)
	if errs.KindOf(err) == errs.NotFound {
		sameSecret(nil, secret)
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	if !r.HasSecret(secret) {
		return nil, refused
	}
	return r, nil
}

// Admits tells whether a user may use a client at all: allowed_user_ids lets them in, and they are a member of its organization or the
// client is for others too.
func (s *Store) Admits(ctx context.Context, r *Registered, userID string) (bool, error) {
	if !r.Allows(userID) {
		return false, nil
	}
	if r.IsPublic {
		return true, nil
	}
	p := pair{r.ID, userID}
	if s.cache.user(p).member {
		return true, nil
	}
	now, err := s.freshUser(ctx, r, p)
	return now.member, err
}

func (s *Store) freshUser(ctx context.Context, r *Registered, p pair) (standing, error) {
	round := s.cache.current()
	now, err := s.standing(ctx, r.OrgID, p)
	if err == nil && now != (standing{}) {
		s.cache.keepUser(p, now, round)
	}
	return now, err
}

// Live tells whether a token with these numbers is good still: its client exists, nobody revoked its user or all of them since, and the
// client still admits the user. userID and consentEpoch are empty for a token that no user stands behind.
func (s *Store) Live(ctx context.Context, clientID, userID string, clientEpoch, consentEpoch int64) (bool, error) {
	r := s.cache.client(clientID)
	if r == nil || r.Epoch != clientEpoch || userID != "" && !r.Allows(userID) {
		var err error
		r, err = s.fresh(ctx, clientID)
		if errs.KindOf(err) == errs.NotFound {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	if r.Epoch != clientEpoch {
		return false, nil
	}
	if userID == "" {
		return consentEpoch == 0, nil
	}
	if !r.Allows(userID) || consentEpoch == 0 {
		return false, nil
	}
	return s.liveUser(ctx, r, pair{clientID, userID}, consentEpoch)
}

func (s *Store) liveUser(ctx context.Context, r *Registered, p pair, epoch int64) (bool, error) {
	good := func(st standing) bool { return st.consent == epoch && (r.IsPublic || st.member) }
	if good(s.cache.user(p)) {
		return true, nil
	}
	now, err := s.freshUser(ctx, r, p)
	return good(now), err
}

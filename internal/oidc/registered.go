package oidc

import (
	"context"
	"slices"

	"github.com/go-jose/go-jose/v4"

	"steward/internal/errs"
	"steward/internal/id"
)

// Registered is a client as the protocol uses it. It is shared through a cache and must not be modified.
// Its AllowedUserIDs are sorted.
type Registered struct {
	Client
	// Epoch is incremented when all users of the client are revoked. Every token of a user carries it.
	Epoch int64
	// SecretHash is empty for a client without a secret.
	SecretHash []byte
	// Keys are those of Client.JWKS.
	Keys []jose.JSONWebKey
	// Suspended says that the organization was deleted: the client gets no tokens.
	Suspended bool
}

// HasSecret reports whether a presented secret is that of the client, in constant time.
func (r *Registered) HasSecret(presented string) bool {
	return sameSecret(r.SecretHash, presented) && r.AuthMethod.hasSecret()
}

// Allows reports whether allowed_user_ids has the user or is empty. Store.Admits checks is_public
// as well.
func (r *Registered) Allows(userID string) bool {
	if len(r.AllowedUserIDs) == 0 {
		return true
	}
	_, found := slices.BinarySearch(r.AllowedUserIDs, userID)
	return found
}

// MayRedirect reports whether authorization responses may be sent to a URI.
func (r *Registered) MayRedirect(uri string) bool { return matches(r.RedirectURIs, uri) }

// Covers reports whether a redirect URI was registered when the user gave a consent. For a newer one the
// user must be asked again, since whoever added it would get codes without the user's knowledge.
func (r *Registered) Covers(given *Consent, redirectURI string) bool {
	return slices.ContainsFunc(r.RedirectURIs, func(registered string) bool {
		return sameURI(registered, redirectURI) && r.redirectsSince[registered] <= given.ClientVersion
	})
}

// AsksEachTime reports whether users must be asked for their consent with each request that names a
// redirect URI: any application on a device can claim to be a public client there (RFC 8252 section 8.6),
// and nobody vouches for a client that registered itself.
func (r *Registered) AsksEachTime(redirectURI string) bool {
	return r.Registration != "" || r.ClientType == Public && isNative(redirectURI)
}

// MayRedirectAfterLogout reports whether a user may be sent to a URI after signing out.
func (r *Registered) MayRedirectAfterLogout(uri string) bool {
	return matches(r.PostLogoutRedirectURIs, uri)
}

// Forget empties the cache. It must be called when Cache or auth.Callers is invalidated.
func (s *Store) Forget() { s.cache.empty() }

// Lookup returns a client of any organization, from the cache if possible, or NotFound.
func (s *Store) Lookup(ctx context.Context, clientID string) (*Registered, error) {
	if r := s.cache.client(clientID); r != nil {
		return r, nil
	}
	return s.readClient(ctx, clientID)
}

// readClient reads a client into the cache, or returns NotFound.
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

// readUser reads what a user is to a client into the cache.
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

// CheckSecret returns the client with a secret. It returns the same Unauthorized for an unknown client, one
// without a secret and a wrong secret.
func (s *Store) CheckSecret(ctx context.Context, clientID, secret string) (*Registered, error) {
	r, err := s.Accept(ctx, clientID, func(r *Registered) bool { return r.HasSecret(secret) })
	if r == nil {
		sameSecret(nil, secret) // takes the time of a comparison
	}
	return r, err
}

// Accept returns a client that a check of its credentials accepts. It returns the same Unauthorized for an unknown
// client and for one that is not accepted. A client that is not accepted as it is in the cache is checked as it
// is stored, so that new credentials work at once on every replica.
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

// Admits reports whether a user may use a client: allowed_user_ids has the user, and the client is public
// or the user is a member of its organization.
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

// Live reports whether a token with these epochs is valid: its client exists, neither its user nor
// all users were revoked since, and the client still admits the user. The user and the consent
// epoch are empty for a token without a user, which is valid while the client may act as itself.
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

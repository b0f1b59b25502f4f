// Package oidc owns OAuth clients: the clients themselves with their secrets, the users' consents, the scope catalogue, activity, and what
// the protocol (package provider) needs to know of them. Signing keys are in package keys.
//
// How data moves. A management request becomes a Client by NewClient.build or ClientPatch.apply (pure: defaults, rules, secret) and a row
// by Store. A protocol request finds its client with Store.Lookup, from a cache, writes a consent with Store.SaveConsent, puts the two
// epochs that it got into whatever it issues, and asks Store.Live on every later use. Uses are told to Activity.Note, which counts in
// memory and writes once a second.
//
// Revocation costs the same whatever the number of tokens, because no token is touched. A token carries two numbers: the epoch of its
// client and the epoch of its user's consent. Deleting a client removes its row (ids are never used again); revoking all users raises
// the client's epoch; revoking one removes the consent, and a later one gets another number. A token lives while both numbers are those
// of the rows. Consents of an earlier client epoch are dead where they lie, and Store.Purge takes them away bit by bit.
//
// What package provider and package server use, by name:
//
//	Store.Lookup(ctx, clientID) (*Registered, error)                       NotFound; cached; do not change what it gives
//	Registered.{Client, Epoch, SecretHash}                                 Client has OrgID, ClientType, RedirectURIs, GrantTypes, Scopes, …
//	Registered.{HasSecret, Allows, MayRedirect, MayReturn}                 secret, allowed_user_ids, redirect URIs
//	Client.{AccessLifetime, RefreshLifetime, IDLifetime}                   effective lifetimes
//	Store.CheckSecret(ctx, clientID, secret) (*Registered, error)          Unauthorized, the same for unknown, public and wrong
//	Store.Admits(ctx, *Registered, userID) (bool, error)                   allowed_user_ids and is_public
//	Store.Consent(ctx, clientID, userID) (*Consent, error)                 nil when there is none
//	Store.SaveConsent(ctx, clientID, userID, granted, declined) (Consent, error)  Consent.{Epoch, ClientEpoch} go into tokens
//	Store.RevokeConsent(ctx, clientID, userID) error                       NotFound when there is none
//	Store.Live(ctx, clientID, userID, clientEpoch, consentEpoch) (bool, error)
//	Activity.Note(clientID, userID)                                        userID is "" for client_credentials
//	Scopes, ScopeNamed(name), CatalogueOf()                                the catalogue
//	keys.Store.Set(ctx) (*keys.Set, error); Set.Signing(alg), Set.JWKS()
package oidc

// Cache names the cache of clients and consents: whoever changes one so that something which was allowed no longer is, bumps it.
const Cache = "oidc"

// Package oidc owns OAuth clients and their secrets, users' consents, the tables of scopes and grant
// types, and the activity counts. Package provider speaks the protocol, and package keys owns the
// signing keys.
//
// NewClient.build and ClientPatch.apply, which are pure, turn a management request into a Client, and
// Store turns that into a row. A protocol request looks its client up with Store.Lookup, stores a
// consent with Store.SaveConsent, puts the consent's two epochs into whatever it issues, and calls
// Store.Live on every later use. Activity.Note counts each use in memory, and we write the counts once
// a second.
//
// A client that a document describes has a row in each organization whose users sign in to it. The
// protocol calls them all by the document's URI (Client.ProtocolID), but each row has its own id,
// consents and activity.
//
// Revocation costs the same however many tokens there are, because it touches none. A token carries two
// epochs, the client's and the consent's, and is live while both match the rows. Revoking all users
// increments the client's epoch. Revoking one user deletes the consent; a later consent gets another
// epoch. Deleting the client deletes its row. Store.Purge deletes the rows left behind, in batches.
package oidc

// Cache names the cache for clients and consents. Every transaction that takes a right away must
// invalidate it.
const Cache = "oidc"

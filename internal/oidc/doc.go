// Package oidc owns OAuth clients: the clients with their secrets, the consents of users, the tables of
// scopes and grant types, and the activity. The protocol is in package provider, the signing keys are in
// package keys.
//
// A management request becomes a Client by NewClient.build or ClientPatch.apply, which are pure, and a
// row by Store. A protocol request reads its client with Store.Lookup, stores a consent with
// Store.SaveConsent, puts the two epochs of that consent into what it issues, and calls Store.Live on
// every later use. Each use is counted by Activity.Note in memory and written once a second.
//
// A client that a document describes has a row in each organization whose users sign in to it. The protocol names all of
// them by the URI of the document (Client.ProtocolID); rows, consents and activity have their own ids.
//
// Revocation takes the same work however many tokens there are, because no token is touched. A token
// carries two epochs, that of its client and that of the consent. Revoking all users increments the epoch
// of the client, revoking one user deletes the consent, whose successor gets another epoch, and deleting
// the client deletes its row. A token is live while both epochs are those of the rows. Store.Purge
// deletes the rows that are left behind, in batches.
package oidc

// Cache names the cache of clients and consents. A transaction that takes a right away must
// invalidate it.
const Cache = "oidc"

// Package links owns the pages that links with a token open: the invitation to an organization, the reset
// of a password, and the setup of an installation. Besides base packages it imports attempt, flow, oauth,
// oidc, pages, passkey, password, session and signin.
//
// Whoever opens such a link may have no account yet, or cannot sign in. Each ends with a sign-in.
package links

// Package links owns the pages that links with a token open: the invitation to an organization, the reset of
// a password, and the setup of an installation.
//
// Whoever opens such a link may have no account yet, or cannot sign in. Each ends with a sign-in.
package links

// Package links owns the pages that links with a token open: to join an organization, reset a password,
// and set an installation up.
//
// People who open such a link may have no account yet, or cannot sign in. Each page ends with a
// sign-in.
package links

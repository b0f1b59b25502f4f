// Package links owns the pages behind links that carry a token: an invitation to an organization, a
// password reset, and an installation's setup.
//
// People who open such a link may have no account yet, or cannot sign in. Each page ends by signing them
// in.
package links

// Package certificate has the TLS certificates of the listeners: a pair of files that is read again when it
// changes (Files), or certificates that are obtained and renewed by ACME (ACME). It owns the table
// certificates, in which all replicas share the latter: one replica at a time issues and renews, and all of
// them serve the certificates, answer challenges, and tell why one was not obtained.
package certificate

import "time"

// Source is where a certificate comes from.
type Source string

// The sources of certificates.
const (
	FromFile Source = "file"
	FromACME Source = "acme"
)

// State is how a certificate is doing.
type State struct {
	// Domains are the names that it is served for.
	Domains []string
	Source  Source
	// NotAfter is when it ends. It is zero if there is no certificate yet.
	NotAfter time.Time
	// LastError is why it was not read, obtained or renewed when that was last tried, "" if it was. It has neither
	// paths nor addresses, which are in the log: all organizations see it.
	LastError string
}

// Expiry is when a certificate ends.
type Expiry struct {
	// Domain is the name that the certificate is served for.
	Domain string
	// NotAfter is zero if there is no certificate yet.
	NotAfter time.Time
}

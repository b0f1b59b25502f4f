// Package certificate provides TLS certificates for the listeners: from a pair of files that we reload when
// it changes (Files), or from an ACME CA, with renewal (ACME). It owns the table certificates, in which all
// replicas share ACME's certificates. One replica at a time issues and renews; all of them serve the
// certificates, answer challenges, and can tell why a certificate was not obtained.
package certificate

import "time"

// Source says where a certificate comes from.
type Source string

// Sources of certificates.
const (
	FromFile Source = "file"
	FromACME Source = "acme"
)

// State says whether a certificate is in order.
type State struct {
	// Domains are the names that it is served for.
	Domains []string
	Source  Source
	// NotAfter is the expiry time. It is zero if there is no certificate yet.
	NotAfter time.Time
	// LastError says why the last attempt to read, obtain or renew it failed, or is "" if it succeeded. All
	// organizations see it, so it contains neither paths nor addresses; those are in the log.
	LastError string
}

// Expiry says when a certificate expires.
type Expiry struct {
	// Domain is the name that the certificate is served for.
	Domain string
	// NotAfter is zero if there is no certificate yet.
	NotAfter time.Time
}

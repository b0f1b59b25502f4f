// Package certificate provides TLS certificates for the listeners: from a pair of files that we reload when
// it changes (Files), or from an ACME CA, with renewal (ACME). It owns the table certificates, in which all
// replicas share ACME's certificates. One replica at a time issues and renews; all of them serve the
// certificates, answer challenges, and can tell why a certificate was not obtained.
package certificate

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"steward/internal/job"
)

// Files reads a certificate and its key from two PEM files.
type Files struct {
	Cert, Key string // paths
	Log       *slog.Logger

	current atomic.Pointer[tls.Certificate]
	failed  atomic.Bool // reports whether the last read failed
	// seen is a hash of the files as we last read them, or of the error if we could not.
	seen [sha256.Size]byte
}

const (
	// We read the files every reloadEvery.
	reloadEvery = 5 * time.Second
	// maxFile caps how much of a file we read, in bytes.
	maxFile = 1 << 20
)

// Open reads the files. It fails unless they are a certificate with names and its key. It serves an expired
// certificate, but logs it.
func (f *Files) Open() error {
	cert, key, err := f.read()
	if err != nil {
		return err
	}
	f.seen = sha256.Sum256([]byte(cert + key))
	pair, err := parse(cert, key)
	if err != nil {
		return err
	}
	if err := expired(pair); err != nil {
		f.Log.Warn("clients will refuse the TLS certificate", "error", err)
	}
	f.current.Store(pair)
	return nil
}

// Run reloads the files when they change, until ctx ends.
func (f *Files) Run(ctx context.Context) {
	job.Every(f.Log, "read the TLS certificate", reloadEvery, func(context.Context) error {
		f.Reload()
		return nil
	})(ctx)
}

// Reload reads the files again if they have changed. If the new pair is unusable or has expired, it logs
// this once and keeps the last pair: people often replace the files one after the other.
func (f *Files) Reload() {
	cert, key, err := f.read()
	seen := sha256.Sum256([]byte(cert + key))
	if err != nil {
		seen = sha256.Sum256([]byte(err.Error()))
	}
	if seen == f.seen {
		return
	}
	f.seen = seen
	if err == nil {
		err = f.replace(cert, key)
	}
	f.failed.Store(err != nil)
	if err != nil {
		f.Log.Error("the TLS certificate was not read again; the last one stays", "error", err)
		return
	}
	f.Log.Info("the TLS certificate was read again", "expires", f.current.Load().Leaf.NotAfter)
}

func (f *Files) read() (cert, key string, err error) {
	if cert, err = readFile(f.Cert); err != nil {
		return "", "", fmt.Errorf("--tls-cert: %w", err)
	}
	if key, err = readFile(f.Key); err != nil {
		return "", "", fmt.Errorf("--tls-key: %w", err)
	}
	return cert, key, nil
}

func readFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return "", err
	}
	if len(content) > maxFile {
		return "", errors.New("the file is too large")
	}
	return string(content), nil
}

// replace serves another pair from now on.
func (f *Files) replace(cert, key string) error {
	pair, err := parse(cert, key)
	if err != nil {
		return err
	}
	if err := expired(pair); err != nil {
		return err
	}
	f.current.Store(pair)
	return nil
}

func parse(cert, key string) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		return nil, fmt.Errorf("--tls-cert: %w", err)
	}
	if len(pair.Leaf.DNSNames)+len(pair.Leaf.IPAddresses) == 0 {
		return nil, errors.New("--tls-cert: the certificate has no subject alternative names")
	}
	return &pair, nil
}

// expired returns an error if a certificate has expired.
func expired(pair *tls.Certificate) error {
	if end := pair.Leaf.NotAfter; time.Now().After(end) {
		return fmt.Errorf("--tls-cert: the certificate has expired at %s", end.UTC().Format(time.RFC3339))
	}
	return nil
}

// Certificate returns the certificate for a handshake, or nil if the client asks for a name that it does
// not cover. Clients that send no name get it, too.
func (f *Files) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair := f.current.Load()
	if hello.ServerName != "" && pair.Leaf.VerifyHostname(hello.ServerName) != nil {
		return nil, nil
	}
	return pair, nil
}

// Expiries returns when the certificate expires.
func (f *Files) Expiries() []Expiry {
	leaf := f.current.Load().Leaf
	return []Expiry{{Domain: namesOf(leaf)[0], NotAfter: leaf.NotAfter}}
}

// States returns the certificate's state.
func (f *Files) States(context.Context) ([]State, error) {
	leaf := f.current.Load().Leaf
	s := State{Domains: namesOf(leaf), Source: FromFile, NotAfter: leaf.NotAfter}
	if f.failed.Load() {
		s.LastError = "the files were not read again; the log of the server says why"
	}
	return []State{s}, nil
}

func namesOf(leaf *x509.Certificate) []string {
	names := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

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

// Package certtest makes certificates for tests.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA signs certificates.
type CA struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// Pool has the CA. File is a PEM file with it.
	Pool *x509.CertPool
	File string
	// New certificates expire at NotAfter.
	NotAfter time.Time
}

// NewCA returns a new CA.
func NewCA(t testing.TB) *CA {
	t.Helper()
	ca := &CA{
		t: t, key: newKey(t), Pool: x509.NewCertPool(), File: filepath.Join(t.TempDir(), "ca.pem"), NotAfter: time.Now().Add(time.Hour),
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA of a test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, ca.key.Public(), ca.key)
	must(t, err)
	ca.cert, err = x509.ParseCertificate(der)
	must(t, err)
	ca.Pool.AddCert(ca.cert)
	must(t, os.WriteFile(ca.File, block("CERTIFICATE", der), 0o600))
	return ca
}

// Issue returns a certificate and its key in PEM. Names may be IP addresses.
func (ca *CA) Issue(names ...string) (cert, key []byte) {
	ca.t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	must(ca.t, err)
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: time.Now().Add(-time.Hour), NotAfter: ca.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	private := newKey(ca.t)
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, private.Public(), ca.key)
	must(ca.t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	must(ca.t, err)
	return block("CERTIFICATE", der), block("PRIVATE KEY", encoded)
}

// Pair returns a certificate for use in this process.
func (ca *CA) Pair(names ...string) tls.Certificate {
	ca.t.Helper()
	pair, err := tls.X509KeyPair(ca.Issue(names...))
	must(ca.t, err)
	return pair
}

// Write writes a new certificate and its key to two files in a directory, and returns their paths.
func (ca *CA) Write(dir string, names ...string) (certFile, keyFile string) {
	ca.t.Helper()
	cert, key := ca.Issue(names...)
	certFile = filepath.Join(dir, "cert.pem")
	keyFile = filepath.Join(dir, "key.pem")
	must(ca.t, os.WriteFile(certFile, cert, 0o600))
	must(ca.t, os.WriteFile(keyFile, key, 0o600))
	return certFile, keyFile
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return key
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

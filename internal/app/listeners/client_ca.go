package listeners

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// ClientCA returns the CAs in a PEM file that must have issued the clients' certificates. It returns
// nil if the path is empty.
func ClientCA(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--client-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("--client-ca: the file has no certificates in PEM")
	}
	return pool, nil
}

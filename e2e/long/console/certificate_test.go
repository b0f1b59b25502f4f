package console

import (
	"crypto/tls"
	"net/http"
	"os"
	"testing"

	"steward/e2e/installation"
	"steward/internal/certificate/certtest"
)

// TestConsoleShowsCertificates replaces the certificate of a server by something else. It is not parallel, since it
// changes the transport of all clients.
func TestConsoleShowsCertificates(t *testing.T) {
	ca := certtest.NewCA(t)
	cert, key := ca.Write(t.TempDir(), "localhost", "127.0.0.1")
	before := http.DefaultTransport
	trusting := before.(*http.Transport).Clone()
	trusting.TLSClientConfig = &tls.Config{RootCAs: ca.Pool}
	http.DefaultTransport = trusting
	t.Cleanup(func() {
		trusting.CloseIdleConnections()
		http.DefaultTransport = before
	})
	s := installation.Prepare(t, "sqlite", "--tls-cert", cert, "--tls-key", key)
	s.Env = []string{"STEWARD_ADMIN_EMAIL=" + installation.AdminEmail, "STEWARD_ADMIN_PASSWORD=" + installation.AdminPassword}
	s.Start()
	c := newConsole(t, s)
	c.TrustAll()
	c.visit("/")
	c.signIn()
	c.at("/settings", "localhost, 127.0.0.1, by file; ends")
	s.Must(os.WriteFile(cert, []byte("x"), 0o600))
	c.See("the files were not read again")
	c.Clean()
}

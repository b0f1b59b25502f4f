package operations

import (
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"steward/e2e/process"
	"steward/internal/certificate/acmetest"
	"steward/internal/porttest"
	"steward/internal/waittest"
)

// acmeDomain is the domain of the certificates that are obtained in tests.
const acmeDomain = "steward.example.com"

// roundRobin passes connections on to servers in turn, as a balancer does.
type roundRobin struct {
	port  int
	to    [2]string
	count [2]atomic.Int64
}

// newRoundRobin starts one. It waits for servers that do not listen yet.
func newRoundRobin(t *testing.T, to [2]string) *roundRobin {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	b := &roundRobin{port: l.Addr().(*net.TCPAddr).Port, to: to}
	go func() {
		for i := 0; ; i++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go b.pass(t, c, i%2)
		}
	}()
	return b
}

// pass passes a connection on to one of the servers.
func (b *roundRobin) pass(t *testing.T, c net.Conn, i int) {
	defer c.Close()
	var server net.Conn
	waittest.True(t, "a replica to listen", func() (ok bool) {
		var err error
		server, err = net.Dial("tcp", b.to[i])
		return err == nil || t.Context().Err() != nil
	})
	if server == nil {
		return
	}
	defer server.Close()
	b.count[i].Add(1)
	go func() {
		_, _ = io.Copy(server, c) // until one of them closes
		_ = server.Close()
	}()
	_, _ = io.Copy(c, server)
}

// obtained waits until a server serves a certificate for the domain, and returns it.
func obtained(t *testing.T, address string, roots *x509.CertPool) (got *x509.Certificate) {
	t.Helper()
	waittest.True(t, "a certificate of "+address, func() bool {
		var err error
		got, err = leaf(address, acmeDomain, roots)
		return err == nil
	})
	return got
}

// TestReplicasShareACertificate has an ACME server validate the domain through a balancer: every replica
// answers, whichever has placed the only order.
func TestReplicasShareACertificate(t *testing.T) {
	addresses := [2]string{porttest.Address(porttest.Free(t)), porttest.Address(porttest.Free(t))}
	front := newRoundRobin(t, addresses)
	ca := acmetest.Start(t, acmetest.Options{TLSPort: front.port})
	one := process.New(t, "postgres", "--acme", acmeDomain, "--acme-ca", ca.URL, "--acme-email", "tls@example.com", "--listen", addresses[0])
	one.Env = []string{"SSL_CERT_FILE=" + ca.RootsFile}
	one.Start()
	if one.URL != "https://"+acmeDomain {
		t.Errorf("the base URL is %s", one.URL)
	}
	other := one.Replica()
	other.Args = append(other.Args[:len(other.Args):len(other.Args)], "--listen", addresses[1])
	other.Start()

	first := obtained(t, addresses[0], ca.Roots)
	if second := obtained(t, addresses[1], ca.Roots); !second.Equal(first) {
		t.Error("the replicas serve different certificates")
	}
	for i := range front.count {
		if front.count[i].Load() == 0 {
			t.Errorf("replica %d was not asked", i)
		}
	}
	one.Kill()
	one.Start()
	if again := obtained(t, addresses[0], ca.Roots); !again.Equal(first) {
		t.Error("a restart has another certificate")
	}
	if n := ca.Orders(); n != 1 {
		t.Errorf("%d orders, want 1", n)
	}
	if _, err := leaf(addresses[0], "other.example.com", ca.Roots); err == nil || !strings.Contains(err.Error(), "unrecognized name") {
		t.Errorf("another name: %v", err)
	}
}

// TestRedirectListenerAnswersChallenges obtains a certificate over HTTP: no port of the ACME server's leads
// to TLS.
func TestRedirectListenerAnswersChallenges(t *testing.T) {
	plain := porttest.Free(t)
	api := porttest.Address(porttest.Free(t))
	ca := acmetest.Start(t, acmetest.Options{HTTPPort: plain, TLSPort: porttest.Free(t)})
	s := process.New(t, "sqlite", "--acme", acmeDomain, "--acme-ca", ca.URL, "--listen", api,
		"--redirect-listen", porttest.Address(plain))
	s.Env = []string{"SSL_CERT_FILE=" + ca.RootsFile}
	s.Start()
	obtained(t, api, ca.Roots)

	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Get("http://" + porttest.Address(plain) + "//evil.example/a%2Fb?c=d")
	s.Must(err)
	defer res.Body.Close()
	if to := res.Header.Get("Location"); res.StatusCode != http.StatusPermanentRedirect || to != "https://"+acmeDomain+"//evil.example/a%2Fb?c=d" {
		t.Errorf("%s to %s", res.Status, to)
	}
	refused, err := client.Post("http://"+porttest.Address(plain)+"/session", "application/json", nil)
	s.Must(err)
	defer refused.Body.Close()
	if refused.StatusCode != http.StatusBadRequest {
		t.Errorf("a POST in plain text gets %s", refused.Status)
	}
	trust(t, ca.Roots)
	request, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+api+"/healthz", nil)
	s.Must(err)
	request.Host = acmeDomain
	http.DefaultTransport.(*http.Transport).TLSClientConfig.ServerName = acmeDomain
	secure, err := http.DefaultClient.Do(request)
	s.Must(err)
	defer secure.Body.Close()
	if got := secure.Header.Get("Strict-Transport-Security"); got != "max-age=31536000" {
		t.Errorf("Strict-Transport-Security is %q", got)
	}
}

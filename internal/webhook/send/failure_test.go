package send

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"
)

// internals are what no message may contain: addresses, words of resolvers and sockets, and paths.
var internals = regexp.MustCompile(`\d+\.\d+\.\d+\.\d+|::|lookup|:53|dial|tcp|/etc|/usr|0x`)

// TestFailuresNameNoAddresses makes real failures of all kinds. The messages say what failed, and
// nothing of this machine's network.
func TestFailuresNameNoAddresses(t *testing.T) {
	const unreachable = "the destination could not be reached: "
	reset := func(_ *rawServer, c net.Conn, in *bufio.Reader) {
		_, _ = in.ReadString('\n')
		_ = c.(*net.TCPConn).SetLinger(0)
	}
	for name, c := range map[string]struct {
		attempt func(t *testing.T) Result
		want    string
	}{
		"name not found":        {resolving(0x83), unreachable + "the name hooks.steward.test was not found"},
		"resolver fails":        {resolving(0x82), unreachable + "the name hooks.steward.test could not be resolved"},
		"nobody listens":        {func(t *testing.T) Result { return newClient(t).Send(t.Context(), newPost(closedPort(t))) }, unreachable + "connection refused"},
		"no connection in time": {connectingSlowly, unreachable + "no connection within 0.05 s"},
		"no answer in time":     {func(t *testing.T) Result { return sendToSilent(t, "") }, "the destination did not answer within 0.05 s"},
		"unknown authority":     {overTLS(time.Hour, "localhost", false), unreachable + "TLS: the certificate is signed by an unknown authority"},
		"expired":               {overTLS(-time.Hour, "localhost", true), unreachable + "TLS: the certificate has expired or is not valid yet"},
		"other name":            {overTLS(time.Hour, "db.internal", true), unreachable + "TLS: the certificate is not valid for localhost"},
		"no TLS": {func(t *testing.T) Result {
			server := httptest.NewServer(http.NotFoundHandler())
			t.Cleanup(server.Close)
			return newClient(t).Send(t.Context(), newPost(strings.Replace(server.URL, "http:", "https:", 1)))
		}, unreachable + "TLS: the server does not speak it"},
		"TLS refused":     {refusingTLS, unreachable + "TLS: the server refused the handshake: protocol version not supported"},
		"reset":           {served(reset), "the destination reset the connection"},
		"closed":          {served(answering("", true)), "the destination closed the connection without answering"},
		"broken off":      {served(answering("HTTP/1.1 200", true)), "the destination closed the connection without answering"},
		"other protocol":  {served(answering("SSH-2.0-OpenSSH on 10.0.0.2\r\n\r\n", true)), "the response is not valid HTTP, or has more than 64 KiB of headers"},
		"endless headers": {served(answering(ok+"X: "+strings.Repeat("x", 2*maxResponseHeaders)+"\r\n\r\n", true)), "the response is not valid HTTP, or has more than 64 KiB of headers"},
		"bad method": {func(t *testing.T) Result {
			r := newPost("http://127.0.0.1:1")
			r.Method = "A B"
			return newClient(t).Send(t.Context(), r)
		}, "the request cannot be sent over HTTP"},
		"cancelled": {func(t *testing.T) Result {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return newClient(t).Send(ctx, newPost(closedPort(t)))
		}, "the attempt was cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.attempt(t)
			if got.Error != c.want || internals.MatchString(got.Error) {
				t.Errorf("%q, want %q", got.Error, c.want)
			}
		})
	}
}

// TestRefusalsNameTheKindOfRange refuses addresses that a name resolves to.
func TestRefusalsNameTheKindOfRange(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:80": "it is in a loopback range", "[::1]:80": "it is in a loopback range",
		"10.1.2.3:80": "it is in a private range", "[fd12::1]:80": "it is in a private range",
		"[64:ff9b::a01:203]:80": "it is in a private range", "[::ffff:192.168.0.1]:80": "it is in a private range",
		"169.254.1.1:80": "it is in a link-local range", "[fe80::1%eth0]:80": "it is in a link-local range",
		"100.64.0.1:80": "it is in a shared (carrier-grade NAT) range", "224.0.0.1:80": "it is in a multicast range",
		"0.0.0.0:80": "it is in a special-purpose range", "192.0.2.1:80": "it is in a special-purpose range",
		"169.254.169.254:80": "it is that of a metadata service", "93.184.216.34:443": "it belongs to Steward itself",
	} {
		err := Egress{Own: own("93.184.216.34:443")}.control()("tcp", address, nil)
		if err == nil || err.Error() != notAllowed+want || internals.MatchString(err.Error()) {
			t.Errorf("%s: %v, want %s", address, err, want)
		}
	}
}

// served sends to a server.
func served(serve func(*rawServer, net.Conn, *bufio.Reader)) func(t *testing.T) Result {
	return func(t *testing.T) Result { return newClient(t).Send(t.Context(), newPost(newRawServer(t, serve).url)) }
}

// closedPort returns the URL of a port on which nobody listens.
func closedPort(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, listener.Close())
	return "http://" + listener.Addr().String()
}

// resolving sends to a name, with a resolver that answers with flags.
func resolving(flags byte) func(t *testing.T) Result {
	return func(t *testing.T) Result {
		resolver, err := net.ListenPacket("udp", "127.0.0.1:0")
		must(t, err)
		t.Cleanup(func() { _ = resolver.Close() })
		go func() {
			query := make([]byte, 512)
			for {
				n, from, err := resolver.ReadFrom(query)
				if err != nil {
					return
				}
				query[2], query[3] = 0x81, flags // the query itself as its response
				_, _ = resolver.WriteTo(query[:n], from)
			}
		}()
		dialer := &net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "udp", resolver.LocalAddr().String())
		}}}
		client := newClient(t)
		client.transport.DialContext = dialer.DialContext
		return client.Send(t.Context(), newPost("http://hooks.steward.test/x"))
	}
}

// connectingSlowly sends to an address that a connection is not made to in time.
func connectingSlowly(t *testing.T) Result {
	client := newClient(t)
	client.transport.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address)), Err: ctx.Err()}
	}
	r := newPost("http://127.0.0.1:80")
	r.Timeout = 50 * time.Millisecond
	return client.Send(t.Context(), r)
}

// overTLS sends to localhost, where a server has a certificate for a name that is valid for a time and
// that the client trusts or not.
func overTLS(valid time.Duration, name string, trusted bool) func(t *testing.T) Result {
	return func(t *testing.T) Result {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(t, err)
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(valid),
			DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true,
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		must(t, err)
		leaf, err := x509.ParseCertificate(der)
		must(t, err)
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.ErrorLog = nil
		server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
		server.StartTLS()
		t.Cleanup(server.Close)
		client := newClient(t)
		roots := x509.NewCertPool()
		if trusted {
			roots.AddCert(leaf)
		}
		client.transport.TLSClientConfig = &tls.Config{RootCAs: roots}
		port := server.Listener.Addr().(*net.TCPAddr).Port
		return client.Send(t.Context(), newPost(fmt.Sprintf("https://localhost:%d", port)))
	}
}

// refusingTLS sends to a server that wants a newer version of TLS than the client has.
func refusingTLS(t *testing.T) Result {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	server.StartTLS()
	t.Cleanup(server.Close)
	client := newClient(t)
	client.transport.TLSClientConfig = &tls.Config{MaxVersion: tls.VersionTLS12}
	return client.Send(t.Context(), newPost(server.URL))
}

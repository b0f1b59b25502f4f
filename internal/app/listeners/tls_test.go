package listeners

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"steward/internal/budget"
	"steward/internal/certificate/certtest"
	"steward/internal/waittest"
)

// echo is a TLS listener whose server sends back what it reads.
type echo struct {
	tls     *TLS
	address string
	roots   *tls.Config // of a client that trusts the certificate
}

// startEcho starts a server with a certificate of a.example. Its clients need one of the CA, unless that is
// nil.
func startEcho(t *testing.T, clients *certtest.CA) *echo {
	t.Helper()
	ca := certtest.NewCA(t)
	pair := ca.Pair("a.example")
	e := &echo{
		tls: &TLS{
			Certificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
				if hello.ServerName != "a.example" {
					return nil, nil
				}
				return &pair, nil
			},
			Handshakes: budget.NewPool(64, 8), Log: slog.New(slog.DiscardHandler),
		},
		roots: &tls.Config{RootCAs: ca.Pool, ServerName: "a.example"},
	}
	config := e.tls.Config([]string{"http/1.1"}, nil)
	if clients != nil {
		config = e.tls.Config(nil, clients.Pool)
	}
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.address = raw.Addr().String()
	l := e.tls.Listen(raw, config, PlainHTTP)
	ended := make(chan error, 1)
	go func() { ended <- serveEcho(l) }()
	t.Cleanup(func() {
		_ = l.Close()
		if err := waittest.Receive(t, "Accept to return", ended); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept: %v", err)
		}
	})
	return e
}

func serveEcho(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(c, c) // the client tells what it has got
			_ = c.Close()
		}()
	}
}

// try connects with a configuration and exchanges a byte.
func (e *echo) try(config *tls.Config) error {
	c, err := tls.Dial("tcp", e.address, config)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err = io.ReadFull(c, make([]byte, 1))
	return err
}

// dial opens a plain connection.
func (e *echo) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", e.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestStalledHandshakesHoldUpNobody opens connections of one address that send nothing: those beyond its
// share are closed, and another address is served.
func TestStalledHandshakesHoldUpNobody(t *testing.T) {
	e := startEcho(t, nil)
	for range 100 {
		e.dial(t)
	}
	waittest.True(t, "connections beyond the share to be refused", func() bool { return e.tls.Handshakes.Usage().Refused > 0 })
	if used := e.tls.Handshakes.Usage(); used.Common > used.Total*3/8 {
		t.Errorf("one address has %d of %d slots", used.Common, used.Total)
	}
	other := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	c, err := tls.DialWithDialer(&other, "tcp", e.address, e.roots)
	if err != nil {
		t.Fatalf("another address: %v", err)
	}
	_ = c.Close()
}

func TestPlainHTTPIsToldToUseTLS(t *testing.T) {
	e := startEcho(t, nil)
	c := e.dial(t)
	if _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusBadRequest || err != nil || string(body) != "This port requires TLS: the URL begins with https.\r\n" {
		t.Errorf("%s %q %v", res.Status, body, err)
	}
}

func TestWrongNamesAndOldVersionsAreRefused(t *testing.T) {
	e := startEcho(t, nil)
	if err := e.try(e.roots); err != nil {
		t.Errorf("the right name: %v", err)
	}
	wrong := e.roots.Clone()
	wrong.ServerName = "b.example"
	if err := e.try(wrong); err == nil || err.Error() != "remote error: tls: unrecognized name" {
		t.Errorf("a wrong name: %v", err)
	}
	old := e.roots.Clone()
	old.MaxVersion = tls.VersionTLS11
	old.MinVersion = tls.VersionTLS10
	if err := e.try(old); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
}

func TestClientsNeedACertificateOfTheCA(t *testing.T) {
	clients := certtest.NewCA(t)
	e := startEcho(t, clients)
	if err := e.try(e.roots); err == nil {
		t.Error("a client without a certificate was accepted")
	}
	with := e.roots.Clone()
	with.Certificates = []tls.Certificate{clients.Pair("client.example")}
	if err := e.try(with); err != nil {
		t.Errorf("a client of the CA: %v", err)
	}
	with.Certificates = []tls.Certificate{certtest.NewCA(t).Pair("client.example")}
	if err := e.try(with); err == nil {
		t.Error("a client of another CA was accepted")
	}
}

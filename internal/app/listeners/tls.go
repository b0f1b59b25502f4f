package listeners

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"time"

	"steward/internal/budget"
)

// TLS adds TLS to listeners.
type TLS struct {
	// Certificate returns the certificate for a handshake. If it returns nil for the client's name,
	// the client gets an alert.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Handshakes has the slots for connections whose handshake is not complete, by address.
	Handshakes *budget.Pool
	Log        *slog.Logger
}

const handshakeTimeout = 10 * time.Second

// acmeProtocol is the protocol by which an ACME server validates a domain (RFC 8737).
const acmeProtocol = "acme-tls/1"

// Config returns a listener's configuration: its protocols, if it negotiates them, and its clients'
// CAs, if they need a certificate. A CA's server that validates a domain needs none.
func (t *TLS) Config(protocols []string, clients *x509.CertPool) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: t.Certificate, NextProtos: protocols}
	challenge := c.Clone()
	challenge.NextProtos = []string{acmeProtocol}
	if clients != nil {
		c.ClientAuth = tls.RequireAndVerifyClientCert
		c.ClientCAs = clients
	}
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Equal(hello.SupportedProtos, []string{acmeProtocol}) {
			return challenge, nil
		}
		return nil, nil
	}
	return c
}

// Listen returns a listener whose connections have completed their handshake: Accept never waits for
// a client that stalls. A client that does not speak TLS is sent the plain text. Connections are
// *tls.Conn.
func (t *TLS) Listen(l net.Listener, config *tls.Config, plain string) net.Listener {
	ctx, stop := context.WithCancel(context.Background())
	s := &secureListener{
		Listener: l, tls: t, config: config, plain: plain, ctx: ctx, stop: stop, accepted: make(chan accepted),
	}
	go s.run()
	return s
}

// secureListener accepts connections and completes their handshakes in the background.
type secureListener struct {
	net.Listener
	tls      *TLS
	config   *tls.Config
	plain    string
	ctx      context.Context // ends with the listener
	stop     context.CancelFunc
	accepted chan accepted
}

// accepted is Accept's result.
type accepted struct {
	conn net.Conn
	err  error
}

// Accept returns the next connection that has completed its handshake.
func (s *secureListener) Accept() (net.Conn, error) {
	select {
	case a := <-s.accepted:
		return a.conn, a.err
	case <-s.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close closes the listener and the connections that nobody has accepted.
func (s *secureListener) Close() error {
	s.stop()
	return s.Listener.Close()
}

// run accepts connections until the listener is closed. Accept's caller gets the errors, and decides
// how long to wait.
func (s *secureListener) run() {
	for {
		c, err := s.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			s.stop()
			return
		}
		if err != nil {
			s.hand(accepted{err: err})
			continue
		}
		slot := s.tls.Handshakes.Charge(budget.Address(c.RemoteAddr().String()), "")
		if !slot.Take(1) {
			_ = c.Close()
			continue
		}
		go func() {
			defer slot.Release()
			s.handshake(c)
		}()
	}
}

// hand hands a result over to Accept. It returns false if the listener is closed.
func (s *secureListener) hand(a accepted) bool {
	select {
	case s.accepted <- a:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// handshake completes a connection's handshake.
func (s *secureListener) handshake(raw net.Conn) {
	ctx, cancel := context.WithTimeout(s.ctx, handshakeTimeout)
	defer cancel()
	c := tls.Server(raw, s.config)
	if err := c.HandshakeContext(ctx); err != nil {
		s.refuse(raw, err)
		return
	}
	if c.ConnectionState().NegotiatedProtocol == acmeProtocol || !s.hand(accepted{conn: c}) {
		_ = c.Close()
	}
}

// refuse closes a connection whose handshake has failed. If the client does not speak TLS, it tells
// the client so.
func (s *secureListener) refuse(raw net.Conn, err error) {
	defer func() { _ = raw.Close() }()
	s.tls.Log.Debug("a TLS handshake failed", "remote", raw.RemoteAddr().String(), "error", err)
	var header tls.RecordHeaderError
	if !errors.As(err, &header) || header.Conn == nil {
		return
	}
	if err := raw.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return
	}
	if _, err := raw.Write([]byte(s.plain)); err != nil {
		return
	}
	budget.Drain(raw, raw.SetReadDeadline) // closing a connection with unread bytes discards the text
}

// The responses to clients that do not speak TLS.
const (
	PlainHTTP = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n" +
		"Content-Length: 52\r\n\r\nThis port requires TLS: the URL begins with https.\r\n"
	PlainRedis = "-ERR this port requires TLS: the URL begins with rediss\r\n"
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

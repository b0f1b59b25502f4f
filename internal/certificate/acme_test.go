package certificate_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/certificate"
	"steward/internal/certificate/acmetest"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/seal"
	"steward/internal/waittest"
)

// newStore returns a store with a master key of its own.
func newStore(t *testing.T, d *db.DB) *certificate.Store {
	t.Helper()
	ring, err := seal.NewRing(bytes.Repeat([]byte{7}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return &certificate.Store{DB: d, Ring: ring, Now: time.Now}
}

// serving is a TLS listener whose certificates come from ACME.
type serving struct {
	*certificate.ACME
	address string
	stop    func()
}

// listen reserves an address for a listener.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// serve obtains certificates for example.com and serves them on a listener until stop.
func serve(t *testing.T, l net.Listener, o certificate.ACMEOptions) *serving {
	t.Helper()
	o.Domains = []string{"example.com"}
	o.TLSAddress = l.Addr().String()
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	acme, err := certificate.NewACME(o)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{GetCertificate: acme.Certificate, NextProtos: []string{"http/1.1", "acme-tls/1"}}
	go accept(tls.NewListener(l, config))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { acme.Run(ctx) })
	s := &serving{ACME: acme, address: l.Addr().String()}
	s.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(s.stop)
	return s
}

// accept completes handshakes until the listener is closed.
func accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			_ = c.(*tls.Conn).Handshake() // the test looks at the client's side
			_ = c.Close()
		}()
	}
}

// leaf returns the certificate that a client gets for a name.
func (s *serving) leaf(name string, roots *x509.CertPool) (*x509.Certificate, error) {
	c, err := tls.Dial("tcp", s.address, &tls.Config{ServerName: name, RootCAs: roots})
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	return c.ConnectionState().PeerCertificates[0], nil
}

// wait waits until a client gets a certificate that differs from another one.
func (s *serving) wait(t *testing.T, roots *x509.CertPool, other *x509.Certificate) (got *x509.Certificate) {
	t.Helper()
	waittest.True(t, "a certificate", func() bool {
		var err error
		got, err = s.leaf("example.com", roots)
		return err == nil && (other == nil || !got.Equal(other))
	})
	return got
}

func TestCertificateIsIssuedOnceAndSurvivesRestarts(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		l := listen(t)
		ca := acmetest.Start(t, acmetest.Options{TLSPort: l.Addr().(*net.TCPAddr).Port})
		options := certificate.ACMEOptions{Store: newStore(t, d), CA: ca.URL, Roots: ca.Roots}
		s := serve(t, l, options)
		if e := s.Expiries(); len(e) != 1 || e[0].Domain != "example.com" {
			t.Errorf("Expiries = %v", e)
		}
		first := s.wait(t, ca.Roots, nil)
		if e := s.Expiries(); !e[0].NotAfter.Equal(first.NotAfter) {
			t.Errorf("Expiries = %v, want %v", e, first.NotAfter)
		}
		s.stop()

		options.Store = newStore(t, d)
		again := serve(t, listen(t), options)
		if got := again.wait(t, ca.Roots, nil); !got.Equal(first) {
			t.Error("a restart serves another certificate")
		}
		if n := ca.Orders(); n != 1 {
			t.Errorf("%d orders, want 1", n)
		}
	})
}

func TestOtherNamesGetAnAlert(t *testing.T) {
	l := listen(t)
	ca := acmetest.Start(t, acmetest.Options{TLSPort: l.Addr().(*net.TCPAddr).Port})
	s := serve(t, l, certificate.ACMEOptions{Store: newStore(t, dbtest.Open(t, db.SQLite)), CA: ca.URL, Roots: ca.Roots})
	s.wait(t, ca.Roots, nil)
	_, err := s.leaf("other.example.com", ca.Roots)
	if err == nil || err.Error() != "remote error: tls: unrecognized name" {
		t.Errorf("another name: %v", err)
	}
	if n := ca.Orders(); n != 1 {
		t.Errorf("%d orders, want 1", n)
	}
}

func TestCertificateIsRenewed(t *testing.T) {
	l := listen(t)
	ca := acmetest.Start(t, acmetest.Options{TLSPort: l.Addr().(*net.TCPAddr).Port, Validity: firstValidity, FirstOnly: true})
	s := serve(t, l, certificate.ACMEOptions{
		Store: newStore(t, dbtest.Open(t, db.SQLite)), CA: ca.URL, Roots: ca.Roots, CheckEvery: checkEvery,
	})
	first := s.wait(t, ca.Roots, nil)
	second := s.wait(t, ca.Roots, first)
	if !second.NotAfter.After(first.NotAfter) {
		t.Errorf("the renewed certificate ends at %v, the first one at %v", second.NotAfter, first.NotAfter)
	}
}

func TestKeysAreSealedInTheDatabase(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		l := listen(t)
		ca := acmetest.Start(t, acmetest.Options{TLSPort: l.Addr().(*net.TCPAddr).Port})
		store := newStore(t, d)
		s := serve(t, l, certificate.ACMEOptions{Store: store, CA: ca.URL, Roots: ca.Roots})
		s.wait(t, ca.Roots, nil)
		s.stop()
		names, err := store.List(t.Context(), "", true)
		if err != nil {
			t.Fatal(err)
		}
		keys := 0
		for _, name := range names {
			value, err := store.Load(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, ".key") && bytes.Contains(value, []byte("PRIVATE KEY")) {
				keys++
			}
			var raw []byte
			if err := d.Read(t.Context()).Row(`SELECT value FROM certificates WHERE name = $1`, name).Scan(&raw); err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(raw, value) || bytes.Contains(raw, []byte("KEY")) {
				t.Errorf("%s is readable in the database", name)
			}
		}
		if keys != 2 {
			t.Errorf("%d keys are stored, want those of the account and of the certificate: %v", keys, names)
		}
	})
}

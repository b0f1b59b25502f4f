package certificate_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"steward/internal/certificate"
	"steward/internal/certificate/acmetest"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/porttest"
	"steward/internal/waittest"
)

const (
	// firstValidity is how long the first certificate is valid. It is renewed when a third of that is left.
	firstValidity = 10 * time.Second
	// checkEvery is how often replicas look whether it has to be renewed.
	checkEvery = 100 * time.Millisecond
	// lockTTL is how long a lock outlives its process.
	lockTTL = 2 * time.Second
)

// isLater reports whether a certificate is one of those that are not renewed during the test.
func isLater(notAfter time.Time) bool { return time.Until(notAfter) > time.Hour }

// TestOneReplicaRenews has two replicas share a certificate that ends soon.
func TestOneReplicaRenews(t *testing.T) {
	d := dbtest.Open(t, db.Postgres)
	l := listen(t)
	ca := acmetest.Start(t, acmetest.Options{TLSPort: l.Addr().(*net.TCPAddr).Port, Validity: firstValidity, FirstOnly: true})
	var replicas []*serving
	for _, l := range []net.Listener{l, listen(t)} {
		replicas = append(replicas, serve(t, l, certificate.ACMEOptions{
			Store: newStore(t, d), CA: ca.URL, Roots: ca.Roots, CheckEvery: checkEvery,
		}))
	}
	for _, s := range replicas {
		waittest.True(t, "the first certificate", func() bool { return !s.Expiries()[0].NotAfter.IsZero() })
	}
	var served []*x509.Certificate
	for _, s := range replicas {
		waittest.True(t, "the renewed certificate", func() bool { return isLater(s.Expiries()[0].NotAfter) })
		served = append(served, s.wait(t, ca.Roots, nil))
	}
	if !served[0].Equal(served[1]) {
		t.Error("the replicas serve different certificates")
	}
	if n := ca.Orders(); n != 2 {
		t.Errorf("%d orders, want one for each of two certificates", n)
	}
}

// replicaVariable has TestReplicaUntilKilled serve certificates until its process is killed.
const replicaVariable = "STEWARD_CERTIFICATE_REPLICA"

// replicaOrder is what such a process serves.
type replicaOrder struct{ Database, CA, RootsFile, Email, Address string }

// TestReplicaUntilKilled is a replica in a process of its own. Without an order it does nothing.
func TestReplicaUntilKilled(t *testing.T) {
	text := os.Getenv(replicaVariable)
	if text == "" {
		return
	}
	var order replicaOrder
	if err := json.Unmarshal([]byte(text), &order); err != nil {
		t.Fatal(err)
	}
	d, err := db.Open(t.Context(), db.Options{URL: order.Database, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	roots, err := os.ReadFile(order.RootsFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(roots)
	l, err := net.Listen("tcp", order.Address)
	if err != nil {
		t.Fatal(err)
	}
	store := newStore(t, d)
	store.TTL = lockTTL
	serve(t, l, certificate.ACMEOptions{
		Store: store, CA: order.CA, Roots: pool, Email: order.Email, CheckEvery: checkEvery,
	})
	select {}
}

// startReplica starts a process that serves certificates. It is killed when the test ends.
func startReplica(t *testing.T, order replicaOrder) *os.Process {
	t.Helper()
	text, err := json.Marshal(order)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestReplicaUntilKilled$")
	cmd.Env = append(os.Environ(), replicaVariable+"="+string(text))
	cmd.Stdout = os.Stderr
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it ends no other way
		_ = cmd.Wait()
	})
	return cmd.Process
}

// leafAt returns the certificate that a client gets at an address, or nil. It may have expired.
func leafAt(address string) *x509.Certificate {
	c, err := tls.Dial("tcp", address, &tls.Config{ServerName: "example.com", InsecureSkipVerify: true})
	if err != nil {
		return nil
	}
	defer func() { _ = c.Close() }()
	return c.ConnectionState().PeerCertificates[0]
}

// TestAnotherAccountRenews changes the address of the account between a certificate and its renewal. The CA does not
// let an account replace certificates of another one.
func TestAnotherAccountRenews(t *testing.T) {
	o := dbtest.Options(t, db.Postgres)
	d, err := db.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	port := porttest.Free(t)
	address := porttest.Address(port)
	ca := acmetest.Start(t, acmetest.Options{TLSPort: port, Validity: firstValidity, FirstOnly: true})
	one := startReplica(t, replicaOrder{
		Database: o.URL, CA: ca.URL, RootsFile: ca.RootsFile, Email: "one@example.com", Address: address,
	})
	waittest.True(t, "the first certificate", func() bool { return leafAt(address) != nil })
	if err := one.Kill(); err != nil {
		t.Fatal(err)
	}

	var l net.Listener
	waittest.True(t, "the address to be free", func() bool {
		l, err = net.Listen("tcp", address)
		return err == nil
	})
	store := newStore(t, d)
	store.TTL = lockTTL
	other := serve(t, l, certificate.ACMEOptions{
		Store: store, CA: ca.URL, Roots: ca.Roots, Email: "other@example.com", CheckEvery: checkEvery,
	})
	waittest.True(t, "the renewed certificate", func() bool { return isLater(other.Expiries()[0].NotAfter) })
}

// balancer passes the connections of the CA on to a replica, or holds them.
type balancer struct {
	port    int
	arrived chan struct{} // has an element when a connection is held

	mu   sync.Mutex
	to   string
	hold func() bool // reports whether to hold a connection
	held []net.Conn
}

func newBalancer(t *testing.T, to string) *balancer {
	t.Helper()
	l := listen(t)
	b := &balancer{port: l.Addr().(*net.TCPAddr).Port, arrived: make(chan struct{}, 1), to: to, hold: func() bool { return false }}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b.take(c)
		}
	}()
	return b
}

// take passes a connection on, or holds it.
func (b *balancer) take(c net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.hold() {
		go pass(c, b.to)
		return
	}
	b.held = append(b.held, c)
	select {
	case b.arrived <- struct{}{}:
	default:
	}
}

// passTo passes later connections on to a replica, unless hold reports that they are to be held.
func (b *balancer) passTo(address string, hold func() bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.to = address
	b.hold = hold
}

// release passes the connections that were held on to a replica.
func (b *balancer) release(to string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.held {
		go pass(c, to)
	}
	b.held = nil
}

// pass copies both ways until one side ends.
func pass(c net.Conn, to string) {
	defer func() { _ = c.Close() }()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(server, c)
		_ = server.Close()
	}()
	_, _ = io.Copy(c, server)
}

// TestFrozenReplicaDelaysRenewalForItsLease stops a replica while it renews. Another one takes over when the lease
// of the lock has expired, and the first one serves what that has obtained when it goes on, although the CA still
// validates its own order.
func TestFrozenReplicaDelaysRenewalForItsLease(t *testing.T) {
	o := dbtest.Options(t, db.Postgres)
	d, err := db.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	address := porttest.Address(porttest.Free(t))
	front := newBalancer(t, address)
	ca := acmetest.Start(t, acmetest.Options{TLSPort: front.port, Validity: firstValidity, FirstOnly: true})
	front.passTo(address, func() bool { return ca.Orders() > 1 })
	frozen := startReplica(t, replicaOrder{Database: o.URL, CA: ca.URL, RootsFile: ca.RootsFile, Address: address})
	waittest.Receive(t, "the renewal", front.arrived)
	if err := frozen.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	l := listen(t)
	front.passTo(l.Addr().String(), func() bool { return false })
	store := newStore(t, d)
	store.TTL = lockTTL
	other := serve(t, l, certificate.ACMEOptions{Store: store, CA: ca.URL, Roots: ca.Roots, CheckEvery: checkEvery})
	waittest.True(t, "the other replica to renew", func() bool { return isLater(other.Expiries()[0].NotAfter) })
	renewed := other.wait(t, ca.Roots, nil)

	front.release(address)
	if err := frozen.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	waittest.True(t, "the first replica to serve what the other has obtained", func() bool {
		leaf := leafAt(address)
		return leaf != nil && leaf.Equal(renewed)
	})
	if again := other.wait(t, ca.Roots, nil); !again.Equal(renewed) {
		t.Error("the replicas serve different certificates")
	}
	if n := ca.Orders(); n != 3 {
		t.Errorf("%d orders, want three: the first one, that of the frozen replica and that of the other", n)
	}
}

// Package acmetest runs an ACME server for tests: Pebble. It validates domains by connecting to ports on
// this machine, and issues certificates from its own CA.
package acmetest

import (
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/core"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"
)

// Server is a running ACME server.
type Server struct {
	// URL is the server's directory.
	URL string
	// Roots has two CAs: the one that issues certificates, and the one behind the server's own certificate.
	// RootsFile is a PEM file with both.
	Roots     *x509.CertPool
	RootsFile string

	orders atomic.Int64
}

// Options set the ports on this machine that stand in for every domain's ports 80 and 443, and how long
// certificates are valid; 0 means 90 days.
type Options struct {
	HTTPPort, TLSPort int
	Validity          time.Duration
	// FirstOnly applies Validity only to the first certificate.
	FirstOnly bool
}

// Start starts a server. It stops when the test ends.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	t.Setenv("PEBBLE_WFE_NONCEREJECT", "0")
	t.Setenv("PEBBLE_AUTHZREUSE", "0")
	quiet := log.New(io.Discard, "", 0)
	store := db.NewMemoryStore()
	validator := va.New(quiet, o.HTTPPort, o.TLSPort, false, resolver(t), store)
	s := &Server{Roots: x509.NewCertPool(), RootsFile: filepath.Join(t.TempDir(), "roots.pem")}
	var roots []byte
	issuing := func(validity time.Duration) http.Handler {
		profiles := map[string]ca.Profile{"default": {Description: "default", ValidityPeriod: uint64(validity / time.Second)}}
		authority := ca.New(quiet, store, "", "ecdsa", 0, 1, profiles)
		roots = append(roots, authority.GetRootCert(0).PEM()...)
		front := wfe.New(quiet, store, validator, authority, []string{"pebble.letsencrypt.org"}, false, false, 1, 1)
		return front.Handler()
	}
	handler := issuing(o.Validity)
	if o.FirstOnly {
		handler = s.afterFirst(handler, issuing(0))
	}
	server := httptest.NewTLSServer(s.counting(forgetting(store, handler)))
	t.Cleanup(server.Close)
	s.URL = server.URL + wfe.DirectoryPath
	roots = append(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})...)
	if !s.Roots.AppendCertsFromPEM(roots) {
		t.Fatal("the ACME server has no root")
	}
	if err := os.WriteFile(s.RootsFile, roots, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// Orders returns how many orders the server has accepted.
func (s *Server) Orders() int { return int(s.orders.Load()) }

// afterFirst lets one handler issue the first order's certificate, and another one all later certificates. Both
// know the same accounts and orders. A client that sends a handler the other one's nonce gets an error and repeats
// the request.
func (s *Server) afterFirst(first, later http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ofCertificate := strings.HasPrefix(r.URL.Path, finalizePath) || strings.HasPrefix(r.URL.Path, renewalInfoPath)
		if s.Orders() > 1 && ofCertificate {
			later.ServeHTTP(w, r)
			return
		}
		first.ServeHTTP(w, r)
	})
}

// Paths where clients make orders, get certificates, and learn when to renew them.
const (
	orderPath       = "/order-plz"
	finalizePath    = "/finalize-order/"
	renewalInfoPath = "/draft-ietf-acme-ari-03/renewalInfo/"
)

// forgetting makes every order validate its domains: even with PEBBLE_AUTHZREUSE=0, Pebble reuses a valid
// authorization for one order in a hundred. It finds authorizations by their order's account, so we cut
// that link as soon as the order is finalized.
func forgetting(store *db.MemoryStore, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id, ok := strings.CutPrefix(r.URL.Path, finalizePath); ok {
			if order := store.GetOrderByID(id); order != nil {
				order.RLock()
				for _, authorization := range order.AuthorizationObjects {
					authorization.Lock()
					authorization.Order = &core.Order{ID: id}
					authorization.Unlock()
				}
				order.RUnlock()
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) counting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		noted := &statusWriter{ResponseWriter: w}
		next.ServeHTTP(noted, r)
		if r.URL.Path == orderPath && noted.status == http.StatusCreated {
			s.orders.Add(1)
		}
	})
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes and writes the status.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// resolver starts a DNS server that resolves every name to this machine, and returns its address.
func resolver(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{Listener: l, Handler: dns.HandlerFunc(answer)}
	go func() { _ = server.ActivateAndServe() }() // runs until Shutdown
	t.Cleanup(func() { _ = server.Shutdown() })
	return l.Addr().String()
}

// answer answers questions about IPv4 addresses; no other records exist.
func answer(w dns.ResponseWriter, question *dns.Msg) {
	reply := new(dns.Msg).SetReply(question)
	if q := question.Question[0]; q.Qtype == dns.TypeA {
		header := dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET}
		reply.Answer = []dns.RR{&dns.A{Hdr: header, A: net.IPv4(127, 0, 0, 1)}}
	}
	_ = w.WriteMsg(reply) // the client may be gone
}

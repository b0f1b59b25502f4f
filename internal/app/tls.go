package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"steward/internal/app/config"
	"steward/internal/app/listeners"
	"steward/internal/app/metrics"
	"steward/internal/budget"
	"steward/internal/certificate"
	"steward/internal/stamp"
	"steward/internal/status"
)

// certificates provides the listeners' certificates.
type certificates interface {
	Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
	// Expiries returns when they end.
	Expiries() []certificate.Expiry
	// States returns their current states.
	States(ctx context.Context) ([]certificate.State, error)
	// Run keeps them up to date until ctx ends.
	Run(ctx context.Context)
}

// secure is the listeners' TLS.
type secure struct {
	certificates certificates
	tls          *listeners.TLS
	clients      *x509.CertPool // nil if clients need no certificate
	redirect     http.Handler   // for the plain HTTP listener
}

// openTLS returns the listeners' TLS, or nil if they are plain.
func (s *process) openTLS() (*secure, error) {
	if !s.cfg.TLS() {
		return nil, nil
	}
	clients, err := listeners.ClientCA(s.cfg.ClientCA)
	if err != nil {
		return nil, err
	}
	t := &secure{clients: clients, redirect: redirectTo(s.addresses.BaseURL)}
	if s.cfg.TLSCert != "" {
		files := &certificate.Files{Cert: s.cfg.TLSCert, Key: s.cfg.TLSKey, Log: s.log}
		if err := files.Open(); err != nil {
			return nil, err
		}
		t.certificates = files
	} else {
		acme, err := certificate.NewACME(certificate.ACMEOptions{
			Store:   &certificate.Store{DB: s.db, Ring: s.ring, Now: s.now},
			Domains: s.cfg.ACMEDomains, CA: s.cfg.ACMECA, Email: s.cfg.ACMEEmail,
			TLSAddress: s.addresses.Listen["api"], HTTPAddress: s.addresses.Listen["redirect"], Log: s.log,
		})
		if err != nil {
			return nil, err
		}
		t.certificates = acme
		t.redirect = acme.Challenges(t.redirect)
	}
	t.tls = &listeners.TLS{
		Certificate: t.certificates.Certificate, Handshakes: budget.NewPool(min(descriptors()/8, 1000), 16), Log: s.log,
	}
	return t, nil
}

// http2Stall bounds how long an HTTP/2 client may stall. Response deadlines do not end a connection
// that accepts no frame.
const http2Stall = 30 * time.Second

// api returns the API's listener, and makes the server speak HTTP/2.
func (t *secure) api(server *http.Server, l net.Listener) net.Listener {
	if t == nil {
		return l
	}
	server.TLSConfig = t.tls.Config([]string{"h2", "http/1.1"}, nil)
	server.HTTP2 = &http.HTTP2Config{WriteByteTimeout: http2Stall}
	return t.tls.Listen(l, server.TLSConfig, listeners.PlainHTTP)
}

// s3 returns the function that adds TLS to the S3 listener, or nil.
func (t *secure) s3() func(net.Listener) net.Listener {
	if t == nil {
		return nil
	}
	return func(l net.Listener) net.Listener {
		return t.tls.Listen(l, t.tls.Config([]string{"http/1.1"}, t.clients), listeners.PlainHTTP)
	}
}

// kv returns the listener for key-value stores.
func (t *secure) kv(l net.Listener) net.Listener {
	if t == nil || l == nil {
		return l
	}
	return t.tls.Listen(l, t.tls.Config(nil, t.clients), listeners.PlainRedis)
}

// measure adds the certificates and handshakes to the metrics.
func (t *secure) measure(m *metrics.Metrics) {
	if t == nil {
		return
	}
	m.Pool("tls_handshakes", t.tls.Handshakes.Usage)
	m.Read(metrics.CertificatesFailing, fromDatabase(func(ctx context.Context) (n int, err error) {
		states, err := t.certificates.States(ctx)
		for _, s := range states {
			if s.LastError != "" {
				n++
			}
		}
		return n, err
	}))
	for i, e := range t.certificates.Expiries() {
		m.CertificateExpiry(e.Domain, func() float64 {
			end := t.certificates.Expiries()[i].NotAfter
			if end.IsZero() {
				return 0
			}
			return float64(end.Unix())
		})
	}
}

// states returns the certificates' states, for the status.
func (t *secure) states(ctx context.Context) ([]status.Certificate, error) {
	if t == nil {
		return nil, nil
	}
	states, err := t.certificates.States(ctx)
	if err != nil {
		return nil, err
	}
	shown := make([]status.Certificate, len(states))
	for i, s := range states {
		shown[i] = status.Certificate{Domains: s.Domains, Source: string(s.Source), LastError: s.LastError}
		if !s.NotAfter.IsZero() {
			end := stamp.Of(s.NotAfter)
			shown[i].NotAfter = &end
		}
	}
	return shown, nil
}

// strictTransport tells browsers to use only TLS for a year. It leaves loopback out: other programs
// use it, too, and browsers do not tell ports apart.
func (t *secure) strictTransport(cfg config.Config, baseURL string, handler http.Handler) http.Handler {
	if t == nil || cfg.OnlyLocal(baseURL) {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		handler.ServeHTTP(w, r)
	})
}

// serveRedirect serves plain HTTP in the background, if there is a listener. It returns a function
// that ends it.
func (t *secure) serveRedirect(l net.Listener, log *slog.Logger) (stop func()) {
	if t == nil || l == nil {
		return func() {}
	}
	server := &http.Server{
		Handler: t.redirect, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("plain HTTP is not redirected any more", "error", err)
		}
	}()
	return func() { _ = server.Close() }
}

// redirectTo returns a handler that redirects reads to the same path at the base URL. It refuses
// changes: their client has sent them in plain text, and should learn that.
func redirectTo(baseURL string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		base, err := url.Parse(baseURL)
		if err != nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "This port redirects to "+baseURL+", which requests have to be sent to.", http.StatusBadRequest)
			return
		}
		to := url.URL{Scheme: base.Scheme, Host: base.Host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
		http.Redirect(w, r, to.String(), http.StatusPermanentRedirect)
	})
}

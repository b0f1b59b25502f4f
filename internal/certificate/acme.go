package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3/acme"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// ACMEOptions say which certificates to obtain, and from whom.
type ACMEOptions struct {
	Store *Store
	// Domains get one certificate each. There are no certificates for other names.
	Domains []string
	// CA is the URL of the ACME server's directory; "" means Let's Encrypt.
	CA    string
	Email string // the account's; may be ""
	// This process answers challenges on TLSAddress and HTTPAddress, as host:port. The CA must reach them
	// as ports 443 and 80 on the domains. HTTPAddress may be "".
	TLSAddress, HTTPAddress string
	// Roots verify the ACME server's own certificate; nil means the system's CAs.
	Roots *x509.CertPool
	// Certificates are checked for renewal every CheckEvery; 0 means every ten minutes.
	CheckEvery time.Duration
	Log        *slog.Logger
}

// ACME obtains certificates, and renews them when a third of their lifetime is left or the CA asks for it.
type ACME struct {
	options ACMEOptions
	cache   *certmagic.Cache
	config  *certmagic.Config
	issuer  *certmagic.ACMEIssuer
}

// NewACME returns an ACME. You must call its Run.
func NewACME(o ACMEOptions) (*ACME, error) {
	a := &ACME{options: o}
	logger := newLogger(o.Log)
	a.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert:   func(certmagic.Certificate) (*certmagic.Config, error) { return a.config, nil },
		RenewCheckInterval: o.CheckEvery, Logger: logger,
	})
	a.config = certmagic.New(a.cache, certmagic.Config{
		Storage: o.Store, DefaultServerName: o.Domains[0], OnEvent: a.onEvent, Logger: logger,
		ShouldEmitFunc: func(event string) bool { return event == eventObtained || event == eventFailed },
	})
	host, tlsPort, httpPort, err := challengePorts(o.TLSAddress, o.HTTPAddress)
	if err != nil {
		a.cache.Stop()
		return nil, err
	}
	a.issuer = certmagic.NewACMEIssuer(a.config, certmagic.ACMEIssuer{
		CA: o.CA, Email: o.Email, Agreed: true, TrustedRoots: o.Roots, Logger: logger,
		ListenHost: host, AltTLSALPNPort: tlsPort, AltHTTPPort: httpPort, DisableHTTPChallenge: httpPort == 0,
	})
	a.config.Issuers = []certmagic.Issuer{independent{a.issuer}}
	return a, nil
}

// independent hides an issuer's type from the library, so that it does not set the field replaces (RFC
// 9773) in orders. A CA refuses an order that replaces a certificate which it does not know, or which
// belongs to another account, and the library would then repeat the same order until the certificate has
// expired. It sets the field only for its own type of issuer.
type independent struct{ *certmagic.ACMEIssuer }

// challengePorts returns the host and ports where we answer challenges. The library starts listening itself
// unless it can connect to them, and it knows only one host for both. If the hosts differ, we use only
// challenges over TLS.
func challengePorts(tlsAddress, httpAddress string) (host string, tlsPort, httpPort int, err error) {
	listener, err := netip.ParseAddrPort(tlsAddress)
	if err != nil {
		return "", 0, 0, fmt.Errorf("address of challenges: %w", err)
	}
	ip := listener.Addr()
	tlsPort = int(listener.Port())
	if httpAddress != "" {
		plain, err := netip.ParseAddrPort(httpAddress)
		if err != nil {
			return "", 0, 0, fmt.Errorf("address of challenges: %w", err)
		}
		if ip.IsUnspecified() {
			ip = plain.Addr()
		}
		if plain.Addr().IsUnspecified() || plain.Addr() == ip {
			httpPort = int(plain.Port())
		}
	}
	if ip.IsUnspecified() {
		return "", tlsPort, httpPort, nil
	}
	return ip.String(), tlsPort, httpPort, nil
}

const (
	// After a database failure we wait retryEvery before we look for a certificate again. The library
	// itself retries after CA failures, with growing pauses.
	retryEvery = time.Minute
	// stopTimeout bounds how long a stopping process takes to release its locks.
	stopTimeout = 5 * time.Second
)

// Run obtains and renews certificates until ctx ends.
func (a *ACME) Run(ctx context.Context) {
	var obtaining sync.WaitGroup
	for _, domain := range a.options.Domains {
		obtaining.Go(func() { a.manage(ctx, domain) })
	}
	<-ctx.Done()
	obtaining.Wait()
	a.cache.Stop()
	final, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := a.options.Store.releaseAll(final); err != nil {
		a.options.Log.Warn("locks of certificates were not released", "error", err)
	}
}

// manage retries until a domain has a certificate. From then on, the library serves and renews it.
func (a *ACME) manage(ctx context.Context, domain string) {
	for {
		err := a.obtain(ctx, domain)
		if err == nil || ctx.Err() != nil {
			return
		}
		a.options.Log.Error("there is no TLS certificate yet", "domain", domain, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryEvery):
		}
	}
}

// obtain loads a domain's certificate. If none is stored, it obtains one first, or waits while another
// replica does.
func (a *ACME) obtain(ctx context.Context, domain string) error {
	if err := a.config.ObtainCertAsync(ctx, domain); err != nil {
		return err
	}
	if _, err := a.config.CacheManagedCertificate(ctx, domain); err != nil {
		return fmt.Errorf("load the certificate: %w", err)
	}
	return a.cache.RenewManagedCertificates(ctx) // it may have expired while the server was stopped
}

// Certificate returns the certificate for a handshake, or nil if the client asks for a name that is not one
// of the domains. Clients that send no name get the first domain's certificate. A challenge's handshake
// gets its answer, whichever replica began the challenge.
func (a *ACME) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if hello.ServerName != "" && !slices.Contains(a.options.Domains, strings.ToLower(hello.ServerName)) {
		return nil, nil
	}
	return a.config.GetCertificate(hello)
}

// Challenges returns a handler that answers HTTP challenges for the domains and leaves other requests to
// next.
func (a *ACME) Challenges(next http.Handler) http.Handler {
	answer := a.issuer.HTTPChallengeHandler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if !slices.Contains(a.options.Domains, strings.ToLower(host)) {
			next.ServeHTTP(w, r)
			return
		}
		answer.ServeHTTP(w, r)
	})
}

// Expiries returns when each domain's certificate expires.
func (a *ACME) Expiries() []Expiry {
	all := make([]Expiry, len(a.options.Domains))
	for i, domain := range a.options.Domains {
		all[i].Domain = domain
		for _, c := range a.cache.AllMatchingCertificates(domain) {
			if c.Leaf != nil && c.Leaf.NotAfter.After(all[i].NotAfter) {
				all[i].NotAfter = c.Leaf.NotAfter
			}
		}
	}
	return all
}

// Library events that we log and note.
const (
	eventObtained = "cert_obtained"
	eventFailed   = "cert_failed"
)

// onEvent logs and notes whether a certificate was obtained. The library holds the domain's lock.
func (a *ACME) onEvent(ctx context.Context, event string, data map[string]any) error {
	domain := fmt.Sprint(data["identifier"])
	renewal := strconv.FormatBool(data["renewal"] == true)
	switch event {
	case eventObtained:
		a.options.Log.Info("a TLS certificate was obtained", "domain", domain, "renewal", renewal)
		a.noteFailure(ctx, domain, nil)
	case eventFailed:
		if ctx.Err() != nil {
			return nil // the process is stopping
		}
		a.options.Log.Error("a TLS certificate was not obtained; it is tried again", "domain", domain, "renewal", renewal,
			"error", data["error"])
		if err, ok := data["error"].(error); ok {
			a.noteFailure(ctx, domain, err)
		}
	}
	return nil
}

// failureName names the stored reason why we last failed to obtain a certificate. It is stored so that
// every replica can report it.
func failureName(domain string) string { return "failures/" + domain }

// noteFailure stores why a certificate was not obtained, or clears the reason if err is nil.
func (a *ACME) noteFailure(ctx context.Context, domain string, err error) {
	var failed error
	if err == nil {
		failed = a.options.Store.Delete(ctx, failureName(domain))
	} else {
		failed = a.options.Store.Store(ctx, failureName(domain), []byte(explain(err)))
	}
	if failed != nil {
		a.options.Log.Warn("the status of a TLS certificate was not stored", "domain", domain, "error", failed)
	}
}

// problemPrefix begins the problems that RFC 8555 defines.
const problemPrefix = "urn:ietf:params:acme:error:"

// maxProblem caps how long a CA's problem may be if we are to show it, in bytes.
const maxProblem = 100

// explain says why a certificate was not obtained, without addresses.
func explain(err error) string {
	if problem, ok := errors.AsType[acme.Problem](err); ok && len(problem.Type) <= maxProblem {
		return "the CA refused it with " + strings.TrimPrefix(problem.Type, problemPrefix) + "; the log of the server says why"
	}
	return "it was not obtained; the log of the server says why"
}

// States returns the state of each domain's certificate. Every replica reports a failure, whichever one
// tried.
func (a *ACME) States(ctx context.Context) ([]State, error) {
	all := make([]State, len(a.options.Domains))
	for i, e := range a.Expiries() {
		why, err := a.options.Store.Load(ctx, failureName(e.Domain))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		all[i] = State{Domains: []string{e.Domain}, Source: FromACME, NotAfter: e.NotAfter, LastError: string(why)}
	}
	return all, nil
}

// newLogger returns a logger for the ACME library that writes to log. We demote the library's progress
// messages to debug.
func newLogger(log *slog.Logger) *zap.Logger { return zap.New(&logCore{log: log}) }

type logCore struct{ log *slog.Logger }

// Enabled reports whether we log messages at a level.
func (c *logCore) Enabled(level zapcore.Level) bool {
	return c.log.Enabled(context.Background(), slogLevel(level))
}

// With returns a core that adds fields to each message.
func (c *logCore) With(fields []zapcore.Field) zapcore.Core {
	return &logCore{log: c.log.With(attributes(fields)...)}
}

// Check adds the core to those that write a message.
func (c *logCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

// challengeUnknown is the message for a handshake that answers a challenge nobody began. Any client can
// cause it, so we log it only for debugging.
const challengeUnknown = "tls-alpn challenge"

func (c *logCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	level := slogLevel(e.Level)
	if e.Message == challengeUnknown {
		level = slog.LevelDebug
	}
	c.log.Log(context.Background(), level, "ACME: "+e.Message, attributes(fields)...)
	return nil
}

// Sync does nothing, because we buffer nothing.
func (c *logCore) Sync() error { return nil }

// slogLevel lowers a level. If a certificate was not obtained, ACME itself logs the error.
func slogLevel(level zapcore.Level) slog.Level {
	if level >= zapcore.ErrorLevel {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// attributes converts fields for slog, sorted by name.
func attributes(fields []zapcore.Field) []any {
	encoder := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(encoder)
	}
	all := make([]any, 0, len(encoder.Fields))
	for _, name := range slices.Sorted(maps.Keys(encoder.Fields)) {
		all = append(all, slog.Any(name, encoder.Fields[name]))
	}
	return all
}

// Package listeners opens the listeners that clients connect to, adds TLS to them, and says where
// they can be reached.
package listeners

import (
	"fmt"
	"net"
	"os"
	"slices"

	"steward/internal/app/config"
	"steward/internal/app/datadir"
)

// Listeners are the listeners that clients connect to.
type Listeners struct {
	// API is on 127.0.0.1 and ::1 if that is what Open was asked for.
	API net.Listener
	S3  net.Listener
	KV  net.Listener // nil if there are no embedded key-value stores
	// Redirect is plain HTTP next to TLS. It may be nil.
	Redirect net.Listener
	// Internal is for other replicas; nil if it is disabled, and with SQLite, which has none.
	Internal net.Listener
}

// Open opens the listeners. hasStores is true if there are embedded key-value stores already: then
// we serve them even if no region has that engine any more. onLocalhost is true if the API listens
// wherever clients look for localhost.
func Open(cfg config.Config, hasStores, onLocalhost bool) (*Listeners, error) {
	l := &Listeners{}
	opened := []struct {
		flag, address string
		listener      *net.Listener
		needed        bool
	}{
		{"--listen", cfg.Listen, &l.API, true},
		{"--s3-listen", cfg.S3Listen, &l.S3, true},
		{"--kv-listen", cfg.KVListen, &l.KV, hasStores || hasEmbeddedKV(cfg)},
		{"--redirect-listen", cfg.RedirectListen, &l.Redirect, cfg.RedirectListen != ""},
		{"--internal-listen", cfg.InternalListen, &l.Internal, cfg.InternalListen != "" && cfg.DatabaseURL != ""},
	}
	for _, o := range opened {
		if !o.needed {
			continue
		}
		listener, err := net.Listen("tcp", o.address)
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("%s: %w", o.flag, err)
		}
		*o.listener = listener
	}
	if onLocalhost {
		listener, err := alsoOnIPv6(l.API)
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("--listen: %w", err)
		}
		l.API = listener
	}
	return l, nil
}

func hasEmbeddedKV(cfg config.Config) bool {
	return slices.ContainsFunc(cfg.Regions, func(r config.Region) bool { return r.KV.Kind == config.Embedded })
}

// Close closes the listeners.
func (l *Listeners) Close() {
	for _, listener := range []net.Listener{l.API, l.S3, l.KV, l.Redirect, l.Internal} {
		if listener != nil {
			_ = listener.Close()
		}
	}
}

// Addresses returns where a program's listeners can be reached.
func (l *Listeners) Addresses(cfg config.Config, version string) datadir.Addresses {
	a := datadir.Addresses{
		PID: os.Getpid(), Version: version, BaseURL: cfg.BaseURL, S3URL: cfg.S3URL, TLS: cfg.TLS(),
		Listen: map[string]string{"api": l.API.Addr().String(), "s3": l.S3.Addr().String()},
	}
	if both, ok := l.API.(*pair); ok {
		a.Listen["api_ipv6"] = both.other.Addr().String()
	}
	if l.Redirect != nil {
		a.Listen["redirect"] = l.Redirect.Addr().String()
	}
	if a.BaseURL == "" {
		a.BaseURL = cfg.Scheme("http://", "https://") + dialable(l.API.Addr())
	}
	if a.S3URL == "" {
		a.S3URL = cfg.Scheme("http://", "https://") + public(cfg, l.S3.Addr())
	}
	if l.Internal != nil {
		a.Listen["internal"] = l.Internal.Addr().String()
	}
	if l.KV == nil {
		return a
	}
	a.Listen["kv"] = l.KV.Addr().String()
	a.KVURL = cfg.KVURL
	if a.KVURL == "" {
		a.KVURL = cfg.Scheme("redis://", "rediss://") + public(cfg, l.KV.Addr())
	}
	return a
}

// public returns a listener's public address: with the certificates' first domain, if they have
// domains.
func public(cfg config.Config, addr net.Addr) string {
	_, port, err := net.SplitHostPort(addr.String())
	if err != nil || len(cfg.ACMEDomains) == 0 {
		return dialable(addr)
	}
	return net.JoinHostPort(cfg.ACMEDomains[0], port)
}

// dialable returns an address that a client on this machine can dial, even if the listener is on all
// interfaces.
func dialable(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

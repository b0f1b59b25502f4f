package app

import (
	"fmt"
	"net"
	"os"
	"slices"

	"steward/internal/app/config"
	"steward/internal/app/datadir"
)

// listeners are what clients connect to.
type listeners struct {
	api net.Listener
	s3  net.Listener
	kv  net.Listener // nil if no region has embedded key-value stores
}

// listen opens the listeners.
func listen(cfg config.Config) (*listeners, error) {
	l := &listeners{}
	opened := []struct {
		flag, address string
		listener      *net.Listener
		needed        bool
	}{
		{"--listen", cfg.Listen, &l.api, true},
		{"--s3-listen", cfg.S3Listen, &l.s3, true},
		{"--kv-listen", cfg.KVListen, &l.kv, hasEmbeddedKV(cfg)},
	}
	for _, o := range opened {
		if !o.needed {
			continue
		}
		listener, err := net.Listen("tcp", o.address)
		if err != nil {
			l.close()
			return nil, fmt.Errorf("%s: %w", o.flag, err)
		}
		*o.listener = listener
	}
	return l, nil
}

func hasEmbeddedKV(cfg config.Config) bool {
	return slices.ContainsFunc(cfg.Regions, func(r config.Region) bool { return r.KV.Kind == config.Embedded })
}

func (l *listeners) close() {
	for _, listener := range []net.Listener{l.api, l.s3, l.kv} {
		if listener != nil {
			_ = listener.Close()
		}
	}
}

// addressesOf returns where the listeners can be reached.
func addressesOf(cfg config.Config, l *listeners) datadir.Addresses {
	a := datadir.Addresses{
		PID: os.Getpid(), Version: Version(), BaseURL: cfg.BaseURL, S3URL: cfg.S3URL,
		Listen: map[string]string{"api": l.api.Addr().String(), "s3": l.s3.Addr().String()},
	}
	if a.BaseURL == "" {
		a.BaseURL = "http://" + dialable(l.api.Addr())
	}
	if a.S3URL == "" {
		a.S3URL = "http://" + dialable(l.s3.Addr())
	}
	if l.kv == nil {
		return a
	}
	a.Listen["kv"] = l.kv.Addr().String()
	a.KVURL = cfg.KVURL
	if a.KVURL == "" {
		a.KVURL = "redis://" + dialable(l.kv.Addr())
	}
	return a
}

// dialable returns an address that a client on this machine can dial, also if the listener is on
// all interfaces.
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

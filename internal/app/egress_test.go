package app

import (
	"net/netip"
	"slices"
	"testing"

	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/web"
)

// TestLoopbackIsAllowedForLocalInstallations only: once others can reach the API, they must not
// reach this machine through it.
func TestLoopbackIsAllowedForLocalInstallations(t *testing.T) {
	proxies := web.Proxies{netip.MustParsePrefix("10.0.0.0/8")}
	for name, test := range map[string]struct {
		listen, baseURL string
		proxies         web.Proxies
		want            bool
	}{
		"IPv4":        {"127.0.0.1:1", "http://127.0.0.1:1", nil, true},
		"other IPv4":  {"127.8.9.10:1", "http://127.8.9.10:1", nil, true},
		"localhost":   {"localhost:1", "http://localhost:1", nil, true},
		"IPv6":        {"[::1]:1", "http://[::1]:1", nil, true},
		"any":         {":1", "http://127.0.0.1:1", nil, false},
		"any IPv4":    {"0.0.0.0:1", "http://127.0.0.1:1", nil, false},
		"any IPv6":    {"[::]:1", "http://127.0.0.1:1", nil, false},
		"public":      {"192.0.2.1:1", "http://192.0.2.1:1", nil, false},
		"name":        {"steward.example:1", "http://steward.example:1", nil, false},
		"nothing":     {"", "", nil, false},
		"public base": {"127.0.0.1:1", "https://steward.example", nil, false},
		"proxy":       {"127.0.0.1:1", "http://127.0.0.1:1", proxies, false},
	} {
		cfg := config.Config{Listen: test.listen, TrustedProxies: test.proxies}
		if got := egress(cfg, datadir.Addresses{BaseURL: test.baseURL}).Loopback; got != test.want {
			t.Errorf("%s: loopback allowed: %v", name, got)
		}
	}
}

func TestOwnListenersAreKnownToEgress(t *testing.T) {
	at := datadir.Addresses{Listen: map[string]string{"api": "127.0.0.1:1", "api_ipv6": "[::1]:1"}}
	own := egress(config.Config{}, at).Own
	for _, address := range at.Listen {
		if len(own) != 2 || !slices.Contains(own, netip.MustParseAddrPort(address)) {
			t.Errorf("own listeners: %v", own)
		}
	}
}

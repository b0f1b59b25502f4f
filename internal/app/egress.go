package app

import (
	"iter"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"syscall"

	"steward/internal/webhook/send"
)

// egress returns where deliveries may go: never to Steward's own listeners, and to loopback only
// while nobody else can reach the API, that is while it listens on loopback, its base URL is on
// loopback, and no proxy is trusted.
func egress(cfg Config, at Addresses) send.Egress {
	base, err := url.Parse(at.BaseURL)
	local := err == nil && isLoopback(base.Hostname()) && len(cfg.TrustedProxies) == 0
	host, _, err := net.SplitHostPort(cfg.Listen)
	return send.Egress{
		Allow: cfg.EgressAllow, Loopback: local && err == nil && isLoopback(host), Own: addrPorts(maps.Values(at.Listen)),
	}
}

// isLoopback reports whether a host can be reached from this machine only.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// addrPorts parses the addresses of listeners.
func addrPorts(addresses iter.Seq[string]) []netip.AddrPort {
	var all []netip.AddrPort
	for address := range addresses {
		if parsed, err := netip.ParseAddrPort(address); err == nil {
			all = append(all, parsed)
		}
	}
	return all
}

// deliverySockets returns how many sockets deliveries may use at a time: three eighths of the file
// descriptors of the process. Idle connections of package send may use another eighth; the other
// half is for incoming connections and files.
func deliverySockets() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 256
	}
	return int(min(limit.Cur, 1<<20) * 3 / 8)
}

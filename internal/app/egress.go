package app

import (
	"iter"
	"maps"
	"net/netip"

	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/webhook/send"
)

// egress returns where deliveries may go: never to Steward's own listeners, and to loopback only
// while no other machine can reach the API.
func egress(cfg config.Config, at datadir.Addresses) send.Egress {
	return send.Egress{Allow: cfg.EgressAllow, Loopback: cfg.OnlyLocal(at.BaseURL), Own: addrPorts(maps.Values(at.Listen))}
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
func deliverySockets() int { return int(descriptors() * 3 / 8) }

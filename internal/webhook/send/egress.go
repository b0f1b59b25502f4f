package send

import (
	"net"
	"net/netip"
	"slices"
	"syscall"

	"code.dny.dev/ssrf"
)

// Egress decides which addresses we may send requests to. It checks the resolved address right before
// each connection is made, so that neither a name nor a second DNS lookup can bypass it.
//
// It always refuses Steward's own addresses and cloud metadata services. It refuses private and other
// special networks unless Allow or Loopback permits them.
type Egress struct {
	// Allow lists networks that are permitted in addition to public ones.
	Allow []netip.Prefix
	// Loopback permits loopback addresses. It is safe only while nobody outside this machine can reach
	// the API.
	Loopback bool
	// Own lists the addresses on which Steward itself listens. An unspecified address (0.0.0.0 or ::)
	// stands for all of this machine's addresses.
	Own []netip.AddrPort
}

// refusedError means that Egress refused a connection.
type refusedError struct{ reason string }

func (e *refusedError) Error() string { return "the address is not allowed: " + e.reason }

// Refused returns the reason, without the address.
func (e *refusedError) Refused() string { return e.reason }

func refuse(reason string) error { return &refusedError{reason} }

// metadata are the addresses at which cloud providers hand out credentials.
var metadata = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("169.254.170.2"), netip.MustParseAddr("169.254.170.23"),
	netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("192.0.0.192"),
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd00:ec2::23"), netip.MustParseAddr("fd20:ce::254"),
}

// control returns the function for net.Dialer.Control.
func (e Egress) control() func(network, address string, c syscall.RawConn) error {
	var v4, v6 []netip.Prefix
	for _, p := range e.Allow {
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	guardian := ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
	return func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return refuse("it is not an IP address")
		}
		return e.check(guardian, to.Addr().Unmap().WithZone(""), to.Port())
	}
}

func (e Egress) check(guardian *ssrf.Guardian, ip netip.Addr, port uint16) error {
	if slices.Contains(metadata, embedded(ip)) {
		return refuse("it is that of a metadata service")
	}
	if e.isOwn(ip, port) || e.isOwn(embedded(ip), port) {
		return refuse("it belongs to Steward itself")
	}
	if e.Loopback && ip.IsLoopback() {
		return nil
	}
	if err := guardian.SafeAddr(ip); err != nil {
		return refuse("it is in a " + rangeOf(ip) + " range")
	}
	return nil
}

var shared = netip.MustParsePrefix("100.64.0.0/10")

// rangeOf names the range of a special address. We do not show users the address itself, because a
// name of theirs may resolve to it in our private network.
func rangeOf(ip netip.Addr) string {
	switch {
	case ip.IsLoopback():
		return "loopback"
	case ip.IsPrivate():
		return "private"
	case ip.IsLinkLocalUnicast():
		return "link-local"
	case ip.IsMulticast():
		return "multicast"
	case shared.Contains(ip):
		return "shared (carrier-grade NAT)"
	case embedded(ip) != ip:
		return rangeOf(embedded(ip))
	}
	return "special-purpose"
}

// isOwn reports whether Steward listens at an address. Connecting to an unspecified address reaches
// this machine.
func (e Egress) isOwn(ip netip.Addr, port uint16) bool {
	for _, own := range e.Own {
		if own.Port() != port {
			continue
		}
		listener := own.Addr().Unmap().WithZone("")
		if listener == ip || ip.IsUnspecified() || listener.IsUnspecified() && isLocal(ip) {
			return true
		}
	}
	return false
}

// isLocal reports whether an address belongs to this machine. If we cannot find out, we assume so.
func isLocal(ip netip.Addr) bool {
	if ip.IsLoopback() {
		return true
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	return slices.ContainsFunc(addresses, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().Unmap() == ip
	})
}

// Networks whose addresses contain an IPv4 address, in addition to ssrf.IPv6NAT64Prefix.
var (
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")
	compatible = netip.MustParsePrefix("::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
)

// embedded returns the IPv4 address in a NAT64, 6to4 or IPv4-compatible address, or the address
// itself.
func embedded(ip netip.Addr) netip.Addr {
	if !ip.Is6() {
		return ip
	}
	b := ip.As16()
	switch {
	case ssrf.IPv6NAT64Prefix.Contains(ip), localNAT64.Contains(ip), compatible.Contains(ip):
		return netip.AddrFrom4([4]byte(b[12:16]))
	case sixToFour.Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return ip
}

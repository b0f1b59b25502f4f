package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"code.dny.dev/ssrf"
)

// Egress decides which addresses deliveries may be sent to. It is asked with the resolved address just before the connection is made, so
// that no name, redirect or second look-up can get around it.
type Egress struct {
	// Allow opens networks that are refused otherwise.
	Allow []netip.Prefix
	// Loopback allows this machine itself: right only while the API listens on loopback only, for then whoever may make a destination
	// can reach those ports anyway.
	Loopback bool
}

var errEgress = errors.New("the address is not allowed")

// metadata are the services by which clouds hand credentials to their machines. No setting opens them.
var metadata = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("169.254.170.2"), netip.MustParseAddr("169.254.170.23"),
	netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("192.0.0.192"),
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd00:ec2::23"), netip.MustParseAddr("fd20:ce::254"),
}

// control gives the hook for net.Dialer.
func (e Egress) control() func(network, address string, c syscall.RawConn) error {
	var v4, v6 []netip.Prefix
	for _, p := range e.Allow {
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	guard := ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
	return func(network, address string, c syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %s", errEgress, address)
		}
		ip := at.Addr().Unmap().WithZone("")
		if slices.Contains(metadata, embedded(ip)) {
			return fmt.Errorf("%w: %s is a metadata service", errEgress, ip)
		}
		if e.Loopback && ip.IsLoopback() {
			return nil
		}
		if err := guard.SafeAddr(ip); err != nil {
			return fmt.Errorf("%w: %w", errEgress, err)
		}
		return nil
	}
}

// Networks whose addresses hold an IPv4 address.
var (
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")
	compatible = netip.MustParsePrefix("::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
)

// embedded gives the IPv4 address that a NAT64, 6to4 or IPv4-compatible address stands for, else the address itself.
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

package web

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies holds the networks of trusted reverse proxies. We believe their X-Forwarded-For headers.
type Proxies []netip.Prefix

// Behind returns a handler that sets RemoteAddr to the client's address, if a trusted proxy forwarded the
// request. Without proxies it returns next.
func Behind(trusted Proxies, next http.Handler) http.Handler {
	if len(trusted) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if client, forwarded := trusted.client(r); forwarded {
			r = r.WithContext(r.Context()) // a copy, because handlers must not modify their request
			r.RemoteAddr = net.JoinHostPort(client.String(), "0")
		}
		next.ServeHTTP(w, r)
	})
}

// client returns the rightmost address in X-Forwarded-For that is not a trusted proxy. Each proxy appends
// its peer's address, and the client may have sent anything before that. client stops at an element that
// is not an address.
func (p Proxies) client(r *http.Request) (client netip.Addr, forwarded bool) {
	peer, ok := parseAddr(r.RemoteAddr)
	if !ok || !p.contains(peer) {
		return peer, false
	}
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for _, hop := range slices.Backward(hops) {
		addr, ok := parseAddr(strings.TrimSpace(hop))
		if !ok {
			break
		}
		client, forwarded = addr, true
		if !p.contains(addr) {
			break
		}
	}
	return client, forwarded
}

func (p Proxies) contains(addr netip.Addr) bool {
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(addr) })
}

// parseAddr parses an IP address with or without a port. It drops the zone, which is free text.
func parseAddr(text string) (netip.Addr, bool) {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return addr.Unmap().WithZone(""), err == nil
}

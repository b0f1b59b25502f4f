package web

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the networks of the reverse proxies that stand before us, and whose X-Forwarded-For is therefore believed.
type Proxies []netip.Prefix

// Behind gives requests the address of the client that a trusted proxy names, in place of the proxy's own: for throttling, the log,
// the audit log and receipts. Without proxies it is next itself.
func Behind(trusted Proxies, next http.Handler) http.Handler {
	if len(trusted) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if client, forwarded := trusted.client(r); forwarded {
			r = r.WithContext(r.Context()) // a handler must not change the request it was given
			r.RemoteAddr = net.JoinHostPort(client.String(), "0")
		}
		next.ServeHTTP(w, r)
	})
}

// client reads X-Forwarded-For from the right, where each proxy has put who called it: the first address that is no trusted proxy is the
// client's. What stands left of it was written by the client itself and says nothing; so does what is no address.
func (p Proxies) client(r *http.Request) (client netip.Addr, forwarded bool) {
	peer, ok := address(r.RemoteAddr)
	if !ok || !p.trust(peer) {
		return peer, false
	}
	hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for _, hop := range slices.Backward(hops) {
		addr, ok := address(strings.TrimSpace(hop))
		if !ok {
			break
		}
		client, forwarded = addr, true
		if !p.trust(addr) {
			break
		}
	}
	return client, forwarded
}

func (p Proxies) trust(addr netip.Addr) bool {
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(addr) })
}

// address reads an IP address with or without a port. A zone is left out, since it is free text.
func address(text string) (netip.Addr, bool) {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return addr.Unmap().WithZone(""), err == nil
}

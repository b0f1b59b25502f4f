package web

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"steward/internal/auth"
	"steward/internal/budget"
	"steward/internal/id"
)

// Meta is a request's metadata.
type Meta struct {
	ID         string
	RemoteAddr string
	// Route is the pattern of the request's route. Who identifies the caller in the log.
	Route string
	Who   string
	// OrgID is the organization that the request is for, or "" if unknown.
	OrgID string
	// Resource is the last identifier in the path, or "". It leaves out names and other text, since these
	// may be credentials.
	Resource string
	// Caller is set by the route's Guard; auth.From returns it.
	Caller *auth.Caller

	log *slog.Logger
	// memory is the request's share of API.Memory; nil outside the route table.
	memory *budget.Charge
}

// takeMemory takes n bytes for a request. It reports whether there was room.
func takeMemory(ctx context.Context, n int) bool {
	memory := Request(ctx).memory
	return memory == nil || memory.Take(int64(n))
}

// scope is a request's context. It carries Meta and caller in one allocation.
type scope struct {
	context.Context
	Meta
}

type metaKey struct{}

// Value implements context.Context. It knows the keys for Meta and the caller.
func (s *scope) Value(key any) any {
	switch key.(type) {
	case metaKey:
		return &s.Meta
	case auth.ContextKey:
		if s.Caller != nil {
			return s.Caller
		}
	}
	return s.Context.Value(key)
}

// Request returns the metadata for the context's request. For a background job it is empty.
func Request(ctx context.Context) *Meta {
	if m, ok := ctx.Value(metaKey{}).(*Meta); ok {
		return m
	}
	return &Meta{log: slog.Default()}
}

// Log returns the request's logger, which adds the request ID to each line.
func Log(ctx context.Context) *slog.Logger {
	m := Request(ctx)
	if m.ID == "" {
		return m.log
	}
	return m.log.With("request_id", m.ID)
}

// wildcards returns the names of a pattern's wildcards.
func wildcards(pattern string) (names []string) {
	for segment := range strings.SplitSeq(pattern, "/") {
		if name, found := strings.CutPrefix(segment, "{"); found {
			names = append(names, strings.TrimRight(name, ".}"))
		}
	}
	return names
}

// resourceOf returns the last identifier among the wildcards' values, or "".
func resourceOf(r *http.Request, names []string) string {
	for _, name := range slices.Backward(names) {
		if value := r.PathValue(name); id.Valid(value) {
			return value
		}
	}
	return ""
}

// Named returns a handler that sets each request's Route and Resource. The log gets the pattern and never
// the path, since an ingest URL's path contains a token.
func Named(pattern string, next http.Handler) http.Handler {
	names := wildcards(pattern)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		meta := Request(r.Context())
		meta.Route = pattern
		meta.Resource = resourceOf(r, names)
		next.ServeHTTP(w, r)
	})
}

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

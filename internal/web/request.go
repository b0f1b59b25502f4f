package web

import (
	"context"
	"log/slog"
	"net/http"

	"steward/internal/auth"
)

// Meta is what is known of a request before anybody has looked at it.
type Meta struct {
	ID         string
	RemoteAddr string
	// Route and Who are set on the way in, for the log line and the metrics.
	Route string
	Who   string
	// Caller is set by the route's guard; auth.From finds it.
	Caller *auth.Caller

	log *slog.Logger
}

// scope is the context of a request.
type scope struct {
	context.Context
	Meta
}

type metaKey struct{}

// Value answers for the request's Meta and its caller.
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

// Request gives what is known of the request that ctx belongs to: nothing for what runs outside one, such as background loops.
func Request(ctx context.Context) *Meta {
	if m, ok := ctx.Value(metaKey{}).(*Meta); ok {
		return m
	}
	return &Meta{log: slog.Default()}
}

// Log gives the logger of a request; its lines carry the request's id.
func Log(ctx context.Context) *slog.Logger {
	m := Request(ctx)
	if m.ID == "" {
		return m.log
	}
	return m.log.With("request_id", m.ID)
}

// Named notes the pattern of the route that a request took. The path itself is never logged: that of an ingest URL holds a credential.
func Named(pattern string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Request(r.Context()).Route = pattern
		next.ServeHTTP(w, r)
	})
}

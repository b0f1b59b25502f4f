package web

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"steward/internal/auth"
	"steward/internal/budget"
	"steward/internal/id"
)

// Meta is the metadata of a request.
type Meta struct {
	ID         string
	RemoteAddr string
	// Route is the pattern of the request's route. Who identifies the caller in the log.
	Route string
	Who   string
	// OrgID is the organization that the request is for, "" if none is known.
	OrgID string
	// Resource is the identifier in the path, the last one if there are several, and "" if there is none.
	// Names and other text in paths may be credentials, and are left out.
	Resource string
	// Caller is set by the Guard of a route; auth.From returns it.
	Caller *auth.Caller

	log *slog.Logger
	// memory is what the request takes of API.Memory; nil outside of the route table.
	memory *budget.Charge
}

// takeMemory takes n bytes for a request and reports whether there was room for them.
func takeMemory(ctx context.Context, n int) bool {
	memory := Request(ctx).memory
	return memory == nil || memory.Take(int64(n))
}

// scope is the context of a request. It carries Meta and caller in one allocation.
type scope struct {
	context.Context
	Meta
}

type metaKey struct{}

// Value returns Meta or the caller for their keys.
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

// Request returns the metadata of the request that ctx belongs to, which is empty for a background
// job.
func Request(ctx context.Context) *Meta {
	if m, ok := ctx.Value(metaKey{}).(*Meta); ok {
		return m
	}
	return &Meta{log: slog.Default()}
}

// Log returns the logger of a request, which adds the request ID to each line.
func Log(ctx context.Context) *slog.Logger {
	m := Request(ctx)
	if m.ID == "" {
		return m.log
	}
	return m.log.With("request_id", m.ID)
}

// wildcards returns the names of the wildcards of a pattern.
func wildcards(pattern string) (names []string) {
	for segment := range strings.SplitSeq(pattern, "/") {
		if name, found := strings.CutPrefix(segment, "{"); found {
			names = append(names, strings.TrimRight(name, ".}"))
		}
	}
	return names
}

// resourceOf returns the last identifier among the values of wildcards, or "".
func resourceOf(r *http.Request, names []string) string {
	for _, name := range slices.Backward(names) {
		if value := r.PathValue(name); id.Valid(value) {
			return value
		}
	}
	return ""
}

// Named returns a handler that sets the Route and Resource of requests. The log has the pattern and never the
// path, since the path of an ingest URL contains a token.
func Named(pattern string, next http.Handler) http.Handler {
	names := wildcards(pattern)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		meta := Request(r.Context())
		meta.Route = pattern
		meta.Resource = resourceOf(r, names)
		next.ServeHTTP(w, r)
	})
}

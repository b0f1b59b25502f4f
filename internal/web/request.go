package web

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/id"
)

// Version is what the Steward-Version header says: the major version of the API, within which changes only add.
const Version = "1"

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

// Served is what there is to tell of a request that was answered.
type Served struct {
	*Meta
	Method        string
	Status, Bytes int
	At            time.Time // the end
	Took          time.Duration
}

// Observe stands in front of everything: it gives the request an id, catches panics, and tells `done`, where set, when it is over:
// there the request's line is written.
func Observe(log *slog.Logger, done func(Served), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		s := &scope{Context: r.Context(), Meta: Meta{ID: requestID(r), Route: "unknown", RemoteAddr: remoteHost(r), log: log}}
		r = r.WithContext(s)
		rec := &recorder{ResponseWriter: w}
		h := w.Header()
		h["X-Request-Id"] = []string{s.ID}
		h["Steward-Version"] = versionHeader
		defer func() {
			if p := recover(); p != nil {
				caught(rec, r, p)
			}
			if done == nil {
				return
			}
			took := time.Since(start)
			done(Served{Meta: &s.Meta, Method: r.Method, Status: rec.status, Bytes: rec.bytes, At: start.Add(took), Took: took})
		}()
		next.ServeHTTP(rec, r)
	})
}

// versionHeader is shared by all answers; nobody changes it.
var versionHeader = []string{Version}

// Named notes the pattern of the route that a request took. The path itself is never logged: that of an ingest URL holds a credential.
func Named(pattern string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Request(r.Context()).Route = pattern
		next.ServeHTTP(w, r)
	})
}

// caught answers a request whose handler panicked.
func caught(rec *recorder, r *http.Request, p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	Log(r.Context()).Error("panic", "value", p, "stack", string(debug.Stack()))
	if rec.status == 0 {
		Fail(rec, r, &errs.Error{Kind: errs.Internal, Message: "internal error"})
	}
}

func requestID(r *http.Request) string {
	if given := r.Header.Get("X-Request-Id"); id.Foreign(given) {
		return given
	}
	return id.New(id.Request)
}

func remoteHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// recorder notes status and size of an answer for the log.
type recorder struct {
	http.ResponseWriter
	status, bytes int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(p)
	r.bytes += n
	return n, err
}

// Unwrap lets http.ResponseController and WebSocket upgrades reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

package web

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"

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

	log *slog.Logger
}

type metaKey struct{}

// nobody serves code that runs outside a request, such as the first start and background loops.
var nobody = &Meta{log: slog.Default()}

// Request gives what is known of the request that ctx belongs to.
func Request(ctx context.Context) *Meta {
	if m, ok := ctx.Value(metaKey{}).(*Meta); ok {
		return m
	}
	return nobody
}

// Log gives the logger of a request; its lines carry the request's id.
func Log(ctx context.Context) *slog.Logger {
	m := Request(ctx)
	if m.ID == "" {
		return m.log
	}
	return m.log.With("request_id", m.ID)
}

// Observe stands in front of everything: it gives the request an id, catches panics, and writes one line when it is done.
// `done`, where set, is told of each request (metrics).
func Observe(log *slog.Logger, done func(route string, status int, took time.Duration), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		meta := &Meta{ID: requestID(r), Route: "unknown", RemoteAddr: remoteHost(r), log: log}
		r = r.WithContext(context.WithValue(r.Context(), metaKey{}, meta))
		rec := &recorder{ResponseWriter: w}
		h := w.Header()
		h["X-Request-Id"] = []string{meta.ID}
		h["Steward-Version"] = versionHeader
		defer func() {
			if p := recover(); p != nil {
				caught(rec, r, p)
			}
			took := time.Since(start)
			if done != nil {
				done(meta.Route, rec.status, took)
			}
			logRequest(log, r, meta, rec, start.Add(took), took)
		}()
		next.ServeHTTP(rec, r)
	})
}

// versionHeader is shared by all answers; nobody changes it.
var versionHeader = []string{Version}

// logRequest writes the one line of a request. It makes the record itself: slog's own way would look up the caller's source line, which
// nobody wants to see here, and costs as much as the rest.
func logRequest(log *slog.Logger, r *http.Request, meta *Meta, rec *recorder, now time.Time, took time.Duration) {
	if !log.Enabled(r.Context(), slog.LevelInfo) {
		return
	}
	line := slog.NewRecord(now, slog.LevelInfo, "request", 0)
	line.AddAttrs(slog.String("request_id", meta.ID), slog.String("method", r.Method), slog.String("route", meta.Route),
		slog.Int("status", rec.status), slog.Int("bytes", rec.bytes), slog.Duration("took", took), slog.String("who", meta.Who),
		slog.String("from", meta.RemoteAddr))
	_ = log.Handler().Handle(r.Context(), line) // there is nowhere to tell that the log cannot be written
}

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

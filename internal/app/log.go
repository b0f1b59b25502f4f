package app

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"steward/internal/app/config"
	"steward/internal/app/tracing"
	"steward/internal/object/s3"
	"steward/internal/server"
	"steward/internal/web"
)

// newLog returns the process's log. Its times are in UTC.
func newLog(cfg config.Config, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.LogLevel, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			a.Value = slog.TimeValue(a.Value.Time().UTC())
		}
		return a
	}}
	if cfg.LogFormat == config.LogJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// slowWrites returns a function that counts and logs a write that held the database for long.
func slowWrites(log *slog.Logger, count func(route string)) func(context.Context, time.Duration) {
	return func(ctx context.Context, held time.Duration) {
		meta := web.Request(ctx)
		route := cmp.Or(meta.Route, "other")
		count(route)
		log.LogAttrs(context.Background(), slog.LevelWarn, "a write held the database, and others waited for it",
			slog.String("request_id", meta.ID),
			slog.String("route", route),
			slog.Float64("duration_ms", float64(held)/float64(time.Millisecond)),
		)
	}
}

// logRequest logs a request with its route's pattern rather than its path, because the path of an
// ingest URL is a credential. It logs accepted events and successful S3 requests only for debugging:
// there are many.
func logRequest(log *slog.Logger, s web.Served) {
	level := slog.LevelInfo
	many := s.Route == server.IngestRoute || strings.HasPrefix(s.Route, s3.RoutePrefix)
	if many && s.Status < http.StatusBadRequest {
		level = slog.LevelDebug
	}
	if !log.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", s.ID),
		slog.String("method", s.Method),
		slog.String("route", s.Route),
		slog.Int("status", s.Status),
		slog.Int("bytes", s.Bytes),
		slog.Float64("duration_ms", float64(s.Took)/float64(time.Millisecond)),
		slog.String("caller", s.Who),
		slog.String("organization", s.OrgID),
		slog.String("resource", s.Resource),
		slog.String("remote_addr", s.RemoteAddr),
	}
	if traceID := tracing.ID(s.Context); traceID != "" {
		attrs = append(attrs, slog.String("trace_id", traceID))
	}
	log.LogAttrs(context.Background(), level, "request", attrs...)
}

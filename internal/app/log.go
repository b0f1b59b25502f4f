package app

import (
	"context"
	"io"
	"log/slog"
	"time"

	"steward/internal/app/config"
	"steward/internal/web"
)

// newLog returns the log of the process. Its times are in UTC.
func newLog(cfg config.Config, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.LogLevel, ReplaceAttr: timeInUTC}
	if cfg.LogFormat == config.LogJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

func timeInUTC(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		a.Value = slog.TimeValue(a.Value.Time().UTC())
	}
	return a
}

// logRequest logs a request. It has the pattern of the route and not the path, because the path of
// an ingest URL is a credential.
func logRequest(log *slog.Logger, s web.Served) {
	log.LogAttrs(context.Background(), slog.LevelInfo, "request",
		slog.String("request_id", s.ID),
		slog.String("method", s.Method),
		slog.String("route", s.Route),
		slog.Int("status", s.Status),
		slog.Int("bytes", s.Bytes),
		slog.Float64("duration_ms", float64(s.Took)/float64(time.Millisecond)),
		slog.String("caller", s.Who),
		slog.String("remote_addr", s.RemoteAddr),
	)
}

package certificate

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger returns a logger for the ACME library that writes to log. We demote the library's progress
// messages to debug.
func newLogger(log *slog.Logger) *zap.Logger { return zap.New(&logCore{log: log}) }

type logCore struct{ log *slog.Logger }

// Enabled reports whether we log messages at a level.
func (c *logCore) Enabled(level zapcore.Level) bool {
	return c.log.Enabled(context.Background(), slogLevel(level))
}

// With returns a core that adds fields to each message.
func (c *logCore) With(fields []zapcore.Field) zapcore.Core {
	return &logCore{log: c.log.With(attributes(fields)...)}
}

// Check adds the core to those that write a message.
func (c *logCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

// challengeUnknown is the message for a handshake that answers a challenge nobody began. Any client can
// cause it, so we log it only for debugging.
const challengeUnknown = "tls-alpn challenge"

func (c *logCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	level := slogLevel(e.Level)
	if e.Message == challengeUnknown {
		level = slog.LevelDebug
	}
	c.log.Log(context.Background(), level, "ACME: "+e.Message, attributes(fields)...)
	return nil
}

// Sync does nothing, because we buffer nothing.
func (c *logCore) Sync() error { return nil }

// slogLevel lowers a level. If a certificate was not obtained, ACME itself logs the error.
func slogLevel(level zapcore.Level) slog.Level {
	if level >= zapcore.ErrorLevel {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// attributes converts fields for slog, sorted by name.
func attributes(fields []zapcore.Field) []any {
	encoder := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(encoder)
	}
	all := make([]any, 0, len(encoder.Fields))
	for _, name := range slices.Sorted(maps.Keys(encoder.Fields)) {
		all = append(all, slog.Any(name, encoder.Fields[name]))
	}
	return all
}

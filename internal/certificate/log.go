package certificate

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger returns a logger for the ACME library that writes to log. What it tells of its steps is for
// debugging.
func newLogger(log *slog.Logger) *zap.Logger { return zap.New(&logCore{log: log}) }

// logCore implements zapcore.Core.
type logCore struct{ log *slog.Logger }

// Enabled reports whether messages of a level are logged.
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

// challengeUnknown is the message about a handshake for a challenge that nobody has begun. Every client can
// cause it.
const challengeUnknown = "tls-alpn challenge"

// Write writes a message.
func (c *logCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	level := slogLevel(e.Level)
	if e.Message == challengeUnknown {
		level = slog.LevelDebug
	}
	c.log.Log(context.Background(), level, "ACME: "+e.Message, attributes(fields)...)
	return nil
}

// Sync does nothing: nothing is buffered.
func (c *logCore) Sync() error { return nil }

// slogLevel returns a lower level: that a certificate was not obtained is logged as an error by ACME itself.
func slogLevel(level zapcore.Level) slog.Level {
	if level >= zapcore.ErrorLevel {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// attributes returns fields as slog takes them, in the order of their names.
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

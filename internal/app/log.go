package app

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

// logDelay is how late a line may appear. One system call for each request's line would cost more than making the line.
const logDelay = 100 * time.Millisecond

// newLog makes the process's log, and the writer that it shares with the lines of requests.
func newLog(cfg Config, w io.Writer) (*slog.Logger, *lateWriter) {
	late := &lateWriter{out: bufio.NewWriterSize(w, 32<<10)}
	options := &slog.HandlerOptions{Level: cfg.LogLevel}
	var handler slog.Handler = slog.NewTextHandler(late, options)
	if cfg.LogFormat == LogJSON {
		handler = slog.NewJSONHandler(late, options)
	}
	return slog.New(promptHandler{handler, late}), late
}

// lateWriter collects lines and writes them together, soon after the first of them.
type lateWriter struct {
	mu      sync.Mutex
	out     *bufio.Writer
	waiting bool
}

func (l *lateWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.waiting {
		l.waiting = true
		time.AfterFunc(logDelay, l.flush)
	}
	return l.out.Write(p)
}

func (l *lateWriter) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = false
	l.out.Flush()
}

// promptHandler writes warnings and errors at once: they may be the last thing the process says.
type promptHandler struct {
	slog.Handler
	late *lateWriter
}

func (h promptHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Time = r.Time.UTC()
	err := h.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelWarn {
		h.late.flush()
	}
	return err
}

func (h promptHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return promptHandler{h.Handler.WithAttrs(attrs), h.late}
}

func (h promptHandler) WithGroup(name string) slog.Handler {
	return promptHandler{h.Handler.WithGroup(name), h.late}
}

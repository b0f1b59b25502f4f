package mail

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"steward/internal/errs"
	"steward/internal/stamp"
)

// batch bounds the mails that we send before we look for more urgent ones.
const batch = 20

// maxError bounds the error text that we store.
const maxError = 500

// Worker sends mail that is due. Run it on one replica at a time.
type Worker struct {
	Store  *Store
	Server *Server
	Log    *slog.Logger
	// Compose makes the mail for a request, and the token for its link. It returns NotFound if there
	// is nothing left to send.
	Compose func(ctx context.Context, r Request) (Letter, error)
	// Tried, if not nil, is called after each attempt to send a mail. dropped is true if it failed and we give
	// the mail up.
	Tried func(kind Kind, sent, dropped bool)
}

// Run sends all mail that is due.
func (w *Worker) Run(ctx context.Context) error {
	for {
		list, err := w.Store.due(ctx, batch)
		if err != nil || len(list) == 0 {
			return err
		}
		if err := w.sendAll(ctx, list); err != nil {
			return err
		}
	}
}

// sendAll sends mails over one connection.
func (w *Worker) sendAll(ctx context.Context, list []queued) error {
	c := connection{server: w.Server}
	defer c.close()
	for _, q := range list {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := w.attempt(ctx, &c, q); err != nil {
			return err
		}
	}
	return nil
}

// attempt tries to send a mail, and records the result. It returns an error only if it cannot do that.
func (w *Worker) attempt(ctx context.Context, c *connection, q queued) error {
	letter, err := w.compose(ctx, q)
	if errs.KindOf(err) == errs.NotFound {
		return w.Store.remove(ctx, q.id)
	}
	if err == nil {
		err = c.send(ctx, q.id, letter)
	}
	sent := err == nil
	if !sent && ctx.Err() != nil {
		return ctx.Err()
	}
	dropped := !sent && (errs.KindOf(err) == errs.Invalid || stamp.Of(w.Store.Now()).Sub(q.createdAt) > maxAge)
	if w.Tried != nil {
		w.Tried(q.kind, sent, dropped)
	}
	if sent {
		return w.Store.remove(context.WithoutCancel(ctx), q.id) // even if the process is stopping
	}
	problem := withoutAddress(err, letter.To)
	if dropped {
		w.Log.Error("a mail was given up", "kind", q.kind, "attempts", q.attempts+1, "error", problem)
		return w.Store.remove(ctx, q.id)
	}
	w.Log.Warn("a mail was not sent and is tried again later", "kind", q.kind, "attempts", q.attempts+1, "error", problem)
	attempts := q.attempts + 1
	if _, err := w.Store.DB.Exec(ctx, `UPDATE mails SET attempts = $2, next_at = $3, last_error = $4 WHERE id = $1`,
		q.id, attempts, stamp.Of(w.Store.Now()).Add(pauseAfter(attempts)), problem); err != nil {
		return fmt.Errorf("postpone mail: %w", err)
	}
	return nil
}

func (w *Worker) compose(ctx context.Context, q queued) (Letter, error) {
	r, err := w.Store.open(q)
	if err != nil {
		return Letter{}, err
	}
	return w.Compose(ctx, r)
}

// withoutAddress returns an error's text without the recipient's address, which servers repeat: logs
// and tables must not tell who gets mail.
func withoutAddress(err error, address string) string {
	text := err.Error()
	if address != "" {
		text = strings.ReplaceAll(text, address, "the recipient")
	}
	text = strings.ReplaceAll(text[:min(len(text), maxError)], "\x00", "")
	return strings.ToValidUTF8(text, "?")
}

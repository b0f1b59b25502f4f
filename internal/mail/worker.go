package mail

import (
	"context"
	"log/slog"
	"strings"

	"steward/internal/errs"
	"steward/internal/stamp"
)

// batch is how many mails are sent before the worker looks for more urgent ones.
const batch = 20

// maxError bounds the text of an error that is stored.
const maxError = 500

// Worker sends what is due. It must run on one replica at a time.
type Worker struct {
	Store  *Store
	Server *Server
	Log    *slog.Logger
	// Compose makes the mail for a request, and the token of its link. It returns NotFound if there is
	// nothing to send any more.
	Compose func(ctx context.Context, r Request) (Letter, error)
	// Sent, Failed and Dropped count mails that were sent, attempts that failed, and mails that were given
	// up, if they are set.
	Sent    func(Kind)
	Failed  func()
	Dropped func()
}

// Run sends all that is due.
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

// sendAll sends some mails over one connection.
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

// attempt tries to send a mail, and notes the result. It returns an error only if that cannot be noted.
func (w *Worker) attempt(ctx context.Context, c *connection, q queued) error {
	letter, err := w.compose(ctx, q)
	if errs.KindOf(err) == errs.NotFound {
		return w.Store.remove(ctx, q.id)
	}
	if err == nil {
		err = c.send(ctx, q.id, letter)
	}
	switch {
	case err == nil:
		if w.Sent != nil {
			w.Sent(q.kind)
		}
		return w.Store.remove(context.WithoutCancel(ctx), q.id) // it was sent, also if the process is stopping
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if w.Failed != nil {
		w.Failed()
	}
	problem := withoutAddress(err, letter.To)
	if errs.KindOf(err) == errs.Invalid || stamp.Of(w.Store.Now()).Sub(q.createdAt) > maxAge {
		return w.drop(ctx, q, problem)
	}
	w.Log.Warn("a mail was not sent and is tried again later", "kind", q.kind, "attempts", q.attempts+1, "error", problem)
	return w.Store.postpone(ctx, q, problem)
}

func (w *Worker) compose(ctx context.Context, q queued) (Letter, error) {
	r, err := w.Store.open(q)
	if err != nil {
		return Letter{}, err
	}
	return w.Compose(ctx, r)
}

// drop gives a mail up.
func (w *Worker) drop(ctx context.Context, q queued, problem string) error {
	w.Log.Error("a mail was given up", "kind", q.kind, "attempts", q.attempts+1, "error", problem)
	if w.Dropped != nil {
		w.Dropped()
	}
	return w.Store.remove(ctx, q.id)
}

// withoutAddress returns the text of an error without the address of the recipient, which servers repeat:
// logs and tables do not tell who gets mail.
func withoutAddress(err error, address string) string {
	text := err.Error()
	if address != "" {
		text = strings.ReplaceAll(text, address, "the recipient")
	}
	text = strings.ReplaceAll(text[:min(len(text), maxError)], "\x00", "")
	return strings.ToValidUTF8(text, "?")
}

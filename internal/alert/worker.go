package alert

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"steward/internal/db"
	"steward/internal/mail"
	"steward/internal/stamp"
	"steward/internal/webhook/send"
)

const (
	// atOnce is how many notices we send at a time, each to another alert's target.
	atOnce = 20
	// giveUpAfter is how long we try to send a notice.
	giveUpAfter = 24 * time.Hour
	// firstPause and maxPause bound the pause until the next attempt, which doubles each time.
	firstPause = time.Minute
	maxPause   = time.Hour
)

// Worker sends notices that are due. Run it on one replica at a time.
type Worker struct {
	Store *Store
	// Network sends requests to URLs that users chose.
	Network send.Sender
	Log     *slog.Logger
}

// Run sends all notices that are due.
func (w *Worker) Run(ctx context.Context) error {
	for {
		list, err := w.Store.due(ctx, atOnce)
		if err != nil || len(list) == 0 {
			return err
		}
		failures := make([]error, len(list))
		var sending sync.WaitGroup
		for i, one := range list {
			sending.Go(func() { failures[i] = w.send(ctx, one) })
		}
		sending.Wait()
		for _, err := range failures {
			if err != nil {
				return err
			}
		}
	}
}

// send tries to send a notice and records the result. It returns an error only if it cannot do that.
func (w *Worker) send(ctx context.Context, one waiting) error {
	switch one.target.Type {
	case Mail:
		return w.Store.DB.Write(ctx, func(tx *db.Tx) error {
			problem, err := w.Store.mail(tx, one.message, one.target)
			if err != nil {
				return err
			}
			state := Sent
			if problem != "" {
				state = Failed
			}
			return w.Store.finish(tx, one.message, state, problem)
		})
	case Webhook, Slack:
	default:
		return w.record(ctx, one, send.Result{Error: "the target cannot be read", Gone: true})
	}
	request, err := one.request(one.target)
	if err != nil {
		return err
	}
	result := w.Network.Send(ctx, request)
	if result.Error != "" && ctx.Err() != nil { // we are stopping; the target is not to blame
		return ctx.Err()
	}
	return w.record(ctx, one, result)
}

// record records the result of an attempt, even if the process is stopping.
func (w *Worker) record(ctx context.Context, one waiting, result send.Result) error {
	s := w.Store
	now := stamp.Of(s.Now())
	problem := send.CleanText(result.Error)
	dropped := result.Gone || now.Sub(one.createdAt) > giveUpAfter
	if problem != "" {
		w.Log.Warn("a notice of an alert was not sent", "alert", one.AlertID, "notice", one.ID, "given_up", dropped, "error", problem)
	}
	return s.DB.Write(context.WithoutCancel(ctx), func(tx *db.Tx) error {
		switch {
		case problem == "":
			return s.finish(tx, one.message, Sent, "")
		case dropped:
			return s.finish(tx, one.message, Failed, problem)
		}
		pause := max(min(firstPause<<min(one.attempts, 16), maxPause), min(result.RetryAfter, maxPause))
		return s.postpone(tx, one, now.Add(pause), problem)
	})
}

// mail adds a message to the queue of mail. It returns why nobody gets it, or "".
func (s *Store) mail(tx *db.Tx, m message, to Target) (problem string, err error) {
	if s.Mail == nil {
		return "this installation sends no mail", nil
	}
	problem = "none of the addresses belongs to an active member of the organization"
	for _, address := range to.To {
		has, err := s.Accounts.HasAddress(tx, m.OrgID, address)
		if err != nil {
			return "", err
		}
		if !has {
			continue
		}
		added, err := s.Mail.AddForOrg(tx, mail.Request{
			Kind: mail.KindAlert, OrgID: m.OrgID, To: address, Alert: &mail.Alert{Title: m.title(), Text: m.text()},
		})
		if err != nil {
			return "", err
		}
		if !added {
			return "the organization has reached its limit of mails for today", nil
		}
		problem = ""
	}
	return problem, nil
}

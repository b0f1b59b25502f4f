package alert

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"steward/internal/eval"
	"steward/internal/stamp"
	"steward/internal/status"
	"steward/internal/webhook"
	"steward/internal/webhook/stats"
)

const (
	// batch is how many alerts we read at a time, and measureTimeout bounds one measurement.
	batch          = 100
	measureTimeout = 10 * time.Second
	// lastRuns bounds the runs of which a rate is taken.
	lastRuns = 1000
)

// Evaluator measures all alerts. Run it on one replica at a time.
type Evaluator struct {
	Store     *Store
	Webhooks  *webhook.Store
	Counts    *stats.Store
	Evals     *eval.Store
	Processes *status.Processes
	// Backup returns the state of scheduled backups. It is nil if there are none.
	Backup func(ctx context.Context) (status.Backup, error)
	Log    *slog.Logger
}

// Run measures each enabled alert once. An alert that cannot be measured keeps its state.
func (e *Evaluator) Run(ctx context.Context) error {
	for last := (Alert{}); ; {
		list, err := e.Store.enabled(ctx, last, batch)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, a := range list {
			if err := e.evaluate(ctx, a); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				e.Log.Error("an alert cannot be measured", "alert", a.ID, "kind", a.Kind, "error", err)
			}
		}
		last = list[len(list)-1]
	}
}

func (e *Evaluator) evaluate(ctx context.Context, a Alert) error {
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	v, err := e.measure(ctx, a)
	if err != nil {
		return err
	}
	next, event := a.step(v, stamp.Of(e.Store.Now()))
	if event == "" && (next.clearSince == nil) == (a.clearSince == nil) {
		return nil
	}
	return e.Store.move(ctx, a, next, event)
}

// measure returns whether an alert's condition holds now.
func (e *Evaluator) measure(ctx context.Context, a Alert) (v Verdict, err error) {
	p := a.Params
	now := stamp.Of(e.Store.Now())
	since := now
	if p.Minutes != nil {
		since = now.Add(-time.Duration(*p.Minutes) * time.Minute)
	}
	switch a.Kind {
	case DestinationFailing:
		first, n, err := e.Webhooks.FailingBefore(ctx, a.orgID, p.WebhookID, since)
		if err != nil || n == 0 {
			return v, err
		}
		v.Summary = fmt.Sprintf("Deliveries to %s of the webhook %q have been failing since %s: %s.",
			first.Host, first.WebhookName, moment(first.Since), first.LastError)
		if n > 1 {
			v.Summary += fmt.Sprintf(" So have those to other destinations (%d).", n-1)
		}
		v.Failing = true
	case DeliveryOverdue:
		oldest, err := e.Webhooks.OldestDue(ctx, a.orgID, p.WebhookID)
		if err != nil || oldest == nil || *oldest > since {
			return v, err
		}
		v = Verdict{true, fmt.Sprintf("A delivery has been due since %s.", moment(*oldest))}
	case RequestsRejected:
		n, err := e.Webhooks.CountRejected(ctx, a.orgID, p.WebhookID, since, *p.Count)
		if err != nil || n < *p.Count {
			return v, err
		}
		v = Verdict{true, fmt.Sprintf("At least %d requests were rejected within %d minutes.", n, *p.Minutes)}
	case DeliveryPassRate:
		sum, err := e.Counts.Since(ctx, a.orgID, p.WebhookID, since)
		if err != nil {
			return v, err
		}
		return p.rate(sum.Delivered, sum.Delivered+sum.Failed, "attempts to deliver"), nil
	case RunPassRate:
		ended, passed, err := e.Evals.LastRuns(ctx, a.orgID, p.EvalID, since, lastRuns)
		if err != nil {
			return v, err
		}
		return p.rate(passed, ended, "evaluation runs"), nil
	case DiskLow:
		free, err := e.Processes.DiskFree(ctx)
		if err != nil || free == nil || *free >= *p.Percent {
			return v, err
		}
		v = Verdict{true, fmt.Sprintf("Only %d%% of the disk with the data directory is free.", *free)}
	case BackupFailed:
		if e.Backup == nil {
			return v, nil
		}
		b, err := e.Backup(ctx)
		if err != nil || b.LastError == "" {
			return v, err
		}
		v = Verdict{true, "The last backup failed: " + b.LastError + "."}
	}
	return v, nil
}

// rate compares the share of events that passed with the params.
func (p Params) rate(passed, all int64, events string) Verdict {
	if all < *p.Count || passed*100 >= *p.Percent*all {
		return Verdict{}
	}
	return Verdict{true, fmt.Sprintf("%.1f%% of %d %s within %d minutes succeeded, and less than %d%% are too few.",
		float64(passed)/float64(all)*100, all, events, *p.Minutes, *p.Percent)}
}

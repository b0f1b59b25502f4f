package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/list"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/webhook"
)

const (
	// maxRunning bounds the replays of a webhook that run at the same time.
	maxRunning = 10
	// pageReceipts bounds the receipts that one statement looks at.
	pageReceipts = 500
	// pageReplays bounds the replays that the worker has in memory.
	pageReplays = 100
	// countFor bounds the time a request counts; the worker counts the rest.
	countFor = time.Second
	// schemaOfSelected is the migration that added receiptIds.
	schemaOfSelected = 52
	// dryRunFor bounds the time a dry run counts.
	dryRunFor = 30 * time.Second
)

// Store has this package's SQL.
type Store struct {
	DB  *db.DB
	Now func() time.Time
	// Audit records who did something, in the same transaction.
	Audit *audit.Store
	Hooks *webhook.Store

	worker *Worker // this process's; nil if it has none
	// counting is held while we count a page, so that long dry runs take turns and use one core.
	counting sync.Mutex
}

// changed is the topic on which replicas tell each other about new replays.
const changed = "webhook.replays"

const columns = `id, webhook_id, state, total, done, failed, since, until, status, destination_id, to_id, rate, created_at, finished_at,
	org_id, created_by, added, counted, counted_to, walked, added_to, next_due, selected`

func scanReplay(row db.Row) (r Replay, err error) {
	err = row.Scan(&r.ID, &r.WebhookID, &r.State, &r.Total, &r.Done, &r.Failed, &r.Since, &r.Until, &r.Status, &r.DestinationID, &r.To,
		&r.Rate, &r.CreatedAt, &r.FinishedAt, &r.orgID, &r.createdBy, &r.added, &r.counted, &r.countedTo, &r.walked, &r.addedTo, &r.nextDue, &r.Selected)
	r.Total = max(r.Total, r.added)
	return r, err
}

// Plan returns the caller's replay with a count of its deliveries. It returns NotFound, Conflict if a
// destination is disabled, and Invalid if a dry run cannot count all deliveries in time.
func (s *Store) Plan(ctx context.Context, caller *auth.Caller, webhookID string, r Replay) (Replay, error) {
	r.orgID = caller.OrgID
	r.createdBy = caller.Actor()
	r.WebhookID = webhookID
	if err := s.check(ctx, r); err != nil {
		return r, err
	}
	r.addedTo = r.firstKey()
	r.countedTo = r.addedTo
	limit := countFor
	if r.dryRun {
		limit = dryRunFor
	}
	for began := time.Now(); !r.counted && time.Since(began) < limit; {
		if err := s.count(ctx, &r); err != nil {
			return r, err
		}
	}
	if r.dryRun && !r.counted {
		return r, errs.InvalidField("body.since", "expected a shorter time: its deliveries could not be counted within %s", dryRunFor)
	}
	return r, nil
}

// Create stores a replay. It returns Conflict if too many replays of the webhook are running.
func (s *Store) Create(ctx context.Context, r Replay) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := s.insert(tx, r); err != nil {
			return err
		}
		return s.Audit.Record(tx, "webhook.replay", r.ID)
	})
}

// count counts the next part of a replay's deliveries.
func (s *Store) count(ctx context.Context, r *Replay) error {
	s.counting.Lock()
	defer s.counting.Unlock()
	p, err := s.part(ctx, *r, r.countedTo, pageReceipts)
	if err != nil {
		return err
	}
	r.Total += int64(len(p.items))
	r.countedTo = p.end
	r.counted = !p.more
	return nil
}

// insert inserts a replay, unless too many are running. It first updates the webhook's row, so that
// concurrent inserts wait for each other.
func (s *Store) insert(tx *db.Tx, r Replay) error {
	n, err := tx.Exec(`UPDATE webhooks SET version = version WHERE org_id = $1 AND id = $2`, r.orgID, r.WebhookID)
	if err != nil {
		return fmt.Errorf("lock webhook: %w", err)
	}
	if n == 0 {
		return errs.Missing("webhook", r.WebhookID)
	}
	var running int
	if err := tx.Row(`SELECT count(*) FROM webhook_replays WHERE org_id = $1 AND webhook_id = $2 AND state = 'running'`,
		r.orgID, r.WebhookID).Scan(&running); err != nil {
		return fmt.Errorf("count replays: %w", err)
	}
	if running >= maxRunning {
		return errs.New(errs.Conflict, "%d replays of this webhook are running; cancel one or wait until it is done", running)
	}
	if r.Selected > 0 {
		if err := db.RequireSchema(tx, s.Now(), schemaOfSelected, "receiptIds"); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(`INSERT INTO webhook_replays (`+columns+`, receipt_ids)
		VALUES (@id, @webhook_id, @state, @total, @done, @failed, @since, @until, @status, @destination_id, @to_id, @rate, @created_at,
		@finished_at, @org_id, @created_by, @added, @counted, @counted_to, @walked, @added_to, @next_due,
		@selected, @receipt_ids)`,
		db.Args{
			"id": r.ID, "webhook_id": r.WebhookID, "state": string(r.State), "total": r.Total, "done": r.Done, "failed": r.Failed,
			"since": r.Since, "until": r.Until, "status": string(r.Status), "destination_id": r.DestinationID, "to_id": r.To, "rate": r.Rate,
			"created_at": r.CreatedAt, "finished_at": r.FinishedAt, "org_id": r.orgID, "created_by": r.createdBy, "added": r.added,
			"counted": r.counted, "counted_to": r.countedTo, "walked": r.walked, "added_to": r.addedTo, "next_due": r.nextDue,
			"selected": r.Selected, "receipt_ids": strings.Join(r.ulids, " "),
		}); err != nil {
		return fmt.Errorf("insert replay: %w", err)
	}
	tx.OnCommit(func() {
		if s.worker != nil {
			s.worker.signal()
		}
		s.DB.Notify(changed)
	})
	return nil
}

// Get returns a replay, or NotFound.
func (s *Store) Get(ctx context.Context, orgID, webhookID, replayID string) (Replay, error) {
	if _, err := s.Hooks.Get(ctx, orgID, webhookID); err != nil {
		return Replay{}, err
	}
	return get(s.DB.Read(ctx), orgID, webhookID, replayID)
}

func get(q db.Querier, orgID, webhookID, replayID string) (Replay, error) {
	r, err := scanReplay(q.Row(`SELECT `+columns+` FROM webhook_replays WHERE org_id = $1 AND webhook_id = $2 AND id = $3`,
		orgID, webhookID, replayID))
	if errors.Is(err, db.ErrNoRows) {
		return r, errs.Missing("replay", replayID)
	}
	if err != nil {
		return r, fmt.Errorf("read replay: %w", err)
	}
	return r, nil
}

// List returns a page of a webhook's replays, newest first, or NotFound.
func (s *Store) List(ctx context.Context, orgID, webhookID string, p page.Paging) (page.Page[Replay], error) {
	if _, err := s.Hooks.Get(ctx, orgID, webhookID); err != nil {
		return page.Page[Replay]{}, err
	}
	replays := list.Query[Replay]{
		Name: "replays", From: list.Text(`webhook_replays`), Where: list.Where(`org_id = ? AND webhook_id = ?`, orgID, webhookID),
		Columns: columns, Scan: scanReplay, Order: list.ByID(`id`, id.Replay, func(r Replay) string { return r.ID }),
	}
	q := s.DB.Read(ctx)
	total, err := replays.Count(q)
	if err != nil {
		return page.Page[Replay]{}, err
	}
	return replays.Page(q, p, total)
}

// Cancel stops a running replay from adding deliveries. Those already added are still sent. It returns
// NotFound, or Conflict if the replay is done. Cancelling twice changes nothing.
func (s *Store) Cancel(ctx context.Context, orgID, webhookID, replayID string) error {
	if _, err := s.Hooks.Get(ctx, orgID, webhookID); err != nil {
		return err
	}
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		n, err := tx.Exec(`UPDATE webhook_replays SET state = 'cancelled', finished_at = $4
			WHERE org_id = $1 AND webhook_id = $2 AND id = $3 AND state = 'running'`, orgID, webhookID, replayID, stamp.Of(s.Now()))
		if err != nil {
			return fmt.Errorf("cancel replay: %w", err)
		}
		if n == 1 {
			return s.Audit.Record(tx, "webhook.replay-cancel", replayID)
		}
		r, err := get(tx, orgID, webhookID, replayID)
		if err == nil && r.State == Done {
			return errs.New(errs.Conflict, "the replay is done and cannot be cancelled")
		}
		return err
	})
}

// Ended counts first attempts that have ended. The last one completes its replay.
func (s *Store) Ended(tx *db.Tx, ended []webhook.ReplayResult) error {
	type progress struct {
		webhook.ReplayResult
		Now stamp.Time
	}
	rows := make(db.Bulk[progress], len(ended))
	now := stamp.Of(s.Now())
	for i, e := range ended {
		rows[i] = progress{e, now}
	}
	const over = `CASE WHEN state = 'running' AND walked AND done + v.done >= added THEN `
	if err := rows.Send(tx, `UPDATE webhook_replays SET done = done + v.done, failed = failed + v.failed,
		state = `+over+`'done' ELSE state END, finished_at = `+over+`v.now ELSE finished_at END {FROM v}
		WHERE org_id = v.org_id AND webhook_id = v.webhook_id AND id = v.id`); err != nil {
		return fmt.Errorf("count ended deliveries of replays: %w", err)
	}
	return nil
}

// toWalk returns some running replays that have deliveries left to add, from all organizations, in the
// order of their ids after the given one.
func (s *Store) toWalk(ctx context.Context, after string) ([]Replay, error) {
	some, err := db.Collect(s.DB.Read(ctx), scanReplay, `SELECT `+columns+` FROM webhook_replays
		WHERE state = 'running' AND id > $1 AND NOT walked ORDER BY id LIMIT $2`, after, pageReplays)
	if err != nil {
		return nil, fmt.Errorf("list running replays: %w", err)
	}
	return some, nil
}

// saveCount saves a running replay's count, unless another process has continued with it.
func (s *Store) saveCount(ctx context.Context, before, after Replay) error {
	if _, err := s.DB.Exec(ctx, `UPDATE webhook_replays SET total = @total, counted = @counted, counted_to = @counted_to
		WHERE org_id = @org_id AND webhook_id = @webhook_id AND id = @id AND counted_to = @before AND NOT walked AND state = 'running'`,
		db.Args{
			"org_id": before.orgID, "webhook_id": before.WebhookID, "id": before.ID, "total": after.Total, "counted": after.counted,
			"counted_to": after.countedTo, "before": before.countedTo,
		}); err != nil {
		return fmt.Errorf("store count of replay: %w", err)
	}
	return nil
}

// errTaken means that another process has continued with a replay, or that it was cancelled.
var errTaken = errors.New("replay: it is not where it was")

// add adds deliveries and saves the key that the walk has reached. At the end of the walk it sets the
// total to the number added. It returns errTaken, and adds nothing, if the walk is no longer where r
// has it.
func (s *Store) add(ctx context.Context, r Replay, items []webhook.Redelivery, to string, walked bool) error {
	now := stamp.Of(s.Now())
	due := max(r.nextDue, now)
	// The queue is ordered by due time. The next deliveries we add must therefore be due later, even
	// by another replica's clock.
	next := due.Add(max(time.Duration(len(items))*r.pace(), time.Microsecond))
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		n, err := tx.Exec(`UPDATE webhook_replays SET added = added + @n, added_to = @added_to, next_due = @next_due, walked = @walked,
			total = CASE WHEN @walked THEN added + @n ELSE total END,
			state = CASE WHEN @walked AND done >= added + @n THEN 'done' ELSE state END,
			finished_at = CASE WHEN @walked AND done >= added + @n THEN @now ELSE finished_at END
			WHERE org_id = @org_id AND webhook_id = @webhook_id AND id = @id AND added_to = @before AND NOT walked AND state = 'running'`,
			db.Args{
				"org_id": r.orgID, "webhook_id": r.WebhookID, "id": r.ID, "n": int64(len(items)), "added_to": to, "next_due": next,
				"walked": walked, "now": now, "before": r.addedTo,
			})
		if err != nil {
			return fmt.Errorf("store walk of replay: %w", err)
		}
		if n == 0 {
			return errTaken
		}
		return s.Hooks.Redeliver(tx, webhook.Replay{OrgID: r.orgID, WebhookID: r.WebhookID, ID: r.ID},
			webhook.Redeliveries{Items: items, Due: due, Every: r.pace()})
	})
}

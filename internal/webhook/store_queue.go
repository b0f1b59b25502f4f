package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"steward/internal/db"
	"steward/internal/stamp"
)

// turnFor is how long a process keeps the turn of a destination without renewing it.
const turnFor = leaseFor

// promoteAtOnce is how many waiting deliveries become ready in one transaction.
const promoteAtOnce = 1000

// Promote makes deliveries ready whose time has come: retries, and those of a process that let its lease end. It tells how many.
func (s *Store) Promote(ctx context.Context) (n int64, err error) {
	now := stamp.Of(s.Now())
	var one int
	err = s.DB.Read(ctx).Row(`SELECT 1 FROM webhook_deliveries WHERE queue = 2 AND due_at <= $1 LIMIT 1`, now).Scan(&one)
	if errors.Is(err, db.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := byIndex(tx); err != nil {
			return err
		}
		n, err = tx.Exec(`UPDATE webhook_deliveries SET queue = 1, lease_owner = '' FROM (`+keysOf+`
			WHERE queue = 2 AND due_at <= $1 ORDER BY due_at LIMIT $2) AS v`+ours+` AND due_at = v.column6 AND queue = 2`,
			now, promoteAtOnce)
		return err
	})
	return n, err
}

// ReadyDestinations gives the destinations that have ready deliveries and are not another process's turn. It jumps from one destination
// to the next in the index of ready rows, so its cost is the number of destinations with work, not of their deliveries.
func (s *Store) ReadyDestinations(ctx context.Context) ([]string, error) {
	return db.Collect(s.DB.Read(ctx), scanText, `WITH RECURSIVE d(id) AS (
			SELECT (SELECT destination_id FROM webhook_deliveries WHERE queue = 1 ORDER BY destination_id LIMIT 1)
			UNION ALL
			SELECT (SELECT destination_id FROM webhook_deliveries WHERE queue = 1 AND destination_id > d.id ORDER BY destination_id LIMIT 1)
			FROM d WHERE d.id IS NOT NULL)
		SELECT d.id FROM d WHERE d.id IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM webhook_turns t WHERE t.destination_id = d.id AND t.owner <> $1 AND t.until > $2)`,
		s.Owner, stamp.Of(s.Now()))
}

func scanText(row db.Row) (text string, err error) { return text, row.Scan(&text) }

// byIndex keeps PostgreSQL to index look-ups for the rest of the transaction. A plan that it made while the tables were small, and
// keeps, would read them whole once they are large: measured on a fresh database, a batch of 500 results took seconds.
func byIndex(tx *db.Tx) error {
	if tx.Dialect() != db.Postgres {
		return nil
	}
	_, err := tx.Exec(`SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
		set_config('enable_mergejoin', 'off', true), set_config('plan_cache_mode', 'force_custom_plan', true)`)
	return err
}

// claim is a wish for deliveries of one destination, and what came of it.
type claim struct {
	destinationID string
	want          int

	// mine tells whether it is this process's turn, until `until`.
	mine  bool
	until stamp.Time
	// destination is nil when it was deleted.
	destination *Destination
	tasks       []*task
}

// Claim leases ready deliveries of several destinations to this process, in the order of their due times, and loads their receipts.
func (s *Store) Claim(ctx context.Context, claims []*claim) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := byIndex(tx); err != nil {
			return err
		}
		for _, c := range claims {
			if err := s.claim(tx, c); err != nil {
				return err
			}
		}
		return s.load(tx, claims)
	})
}

func (s *Store) claim(tx *db.Tx, c *claim) (err error) {
	now := stamp.Of(s.Now())
	c.tasks, c.until = nil, now.Add(turnFor)
	n, err := tx.Exec(takeTurn+` VALUES ($1, $2, $3) `+orKeepTurn, c.destinationID, s.Owner, c.until)
	if c.mine = n == 1; err != nil || !c.mine {
		return err
	}
	if c.destination, err = destination(tx, c.destinationID); err != nil {
		return err
	}
	rows, err := db.Collect(tx, scanDelivery, `UPDATE webhook_deliveries SET queue = 2, due_at = $3, lease_owner = $4 FROM (`+keysOf+`
		WHERE queue = 1 AND destination_id = $1 ORDER BY due_at, id LIMIT $2) AS v`+ours+` AND due_at = v.column6 AND queue = 1
		RETURNING `+deliveryColumns, c.destinationID, c.want, now.Add(leaseFor), s.Owner)
	slices.SortFunc(rows, func(a, b Delivery) int { return cmp.Compare(a.ID, b.ID) })
	for _, d := range rows {
		c.tasks = append(c.tasks, &task{Delivery: d, until: d.due})
	}
	return err
}

// A turn is taken when nobody has it, or kept. A turn is over leaseFor after it was last renewed.
const (
	takeTurn   = `INSERT INTO webhook_turns (destination_id, owner, until)`
	orKeepTurn = `ON CONFLICT (destination_id) DO UPDATE SET owner = excluded.owner, until = excluded.until
		WHERE webhook_turns.owner = excluded.owner OR webhook_turns.until <= excluded.until - 30000000`
)

// load reads the receipts of claimed deliveries, but for large bodies, which are read when they are sent.
func (s *Store) load(tx *db.Tx, claims []*claim) error {
	asked := newBulk("text", "text", "text")
	waiting := map[string][]*task{}
	for _, c := range claims {
		for _, t := range c.tasks {
			if waiting[t.ReceiptID] == nil {
				asked.add(t.orgID, t.WebhookID, t.ReceiptID)
			}
			waiting[t.ReceiptID] = append(waiting[t.ReceiptID], t)
		}
	}
	found, err := collect(tx, tx.Dialect(), asked, scanReceipt, `SELECT r.org_id, r.webhook_id, r.id, r.date, r.method, r.query,
		r.remote_addr, r.content_type, r.size, r.headers, CASE WHEN r.size <= 65536 THEN r.body END FROM `,
		` CROSS JOIN webhook_receipts r WHERE r.org_id = v.column1 AND r.webhook_id = v.column2 AND r.id = v.column3`)
	for i := range found {
		for _, t := range waiting[found[i].ID] {
			t.receipt = &found[i]
		}
	}
	return err
}

// Body reads a receipt's body that load left out. ErrNoRows when it is gone.
func (s *Store) Body(ctx context.Context, r *Receipt) error {
	if int64(len(r.body)) == r.Size {
		return nil
	}
	whole, err := receipt(s.DB.Read(ctx), r.orgID, r.WebhookID, r.ID)
	r.body = whole.body
	return err
}

// Renew prolongs the leases of deliveries that this process still has in hand, and its turns; it tells which of those it kept.
func (s *Store) Renew(ctx context.Context, tasks []*task, turns []string) (until stamp.Time, mine []string, err error) {
	until = stamp.Of(s.Now()).Add(leaseFor)
	err = s.DB.Write(ctx, func(tx *db.Tx) (err error) {
		if err := byIndex(tx); err != nil {
			return err
		}
		leases, kept := newBulk("text", "text", "text", "text", "text", "bigint", "text"), newBulk("text", "text", "bigint")
		for _, t := range tasks {
			leases.add(t.orgID, t.WebhookID, t.ID, t.DestinationID, t.ReceiptID, int64(until), s.Owner)
		}
		for _, destinationID := range turns {
			kept.add(destinationID, s.Owner, int64(until))
		}
		if err := leases.exec(tx, `UPDATE webhook_deliveries SET due_at = v.column6 FROM `,
			ours+` AND lease_owner = v.column7`); err != nil {
			return err
		}
		mine, err = collect(tx, tx.Dialect(), kept, scanText, takeTurn+` SELECT v.column1, v.column2, v.column3 FROM `,
			` WHERE true `+orKeepTurn+` RETURNING destination_id`)
		return err
	})
	return until, mine, err
}

// ours joins deliveries with a table of their keys. Who adds a lease's owner needs no status: only a pending delivery has an owner. It
// names the columns of all indexes: on a table without statistics PostgreSQL may take any of them, and with the primary key alone
// another one would be read from end to end.
const (
	ours = ` WHERE webhook_deliveries.org_id = v.column1 AND webhook_deliveries.webhook_id = v.column2 AND webhook_deliveries.id = v.column3
		AND webhook_deliveries.destination_id = v.column4 AND webhook_deliveries.receipt_id = v.column5`
	keysOf = `SELECT org_id AS column1, webhook_id AS column2, id AS column3, destination_id AS column4, receipt_id AS column5,
		due_at AS column6 FROM webhook_deliveries`
)

// Release gives back deliveries that will not be sent by this process, and its turns, so that another need not wait for their leases to
// end.
func (s *Store) Release(ctx context.Context, tasks []*task) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := byIndex(tx); err != nil {
			return err
		}
		b := newBulk("text", "text", "text", "text", "text", "text", "bigint")
		for _, t := range tasks {
			b.add(t.orgID, t.WebhookID, t.ID, t.DestinationID, t.ReceiptID, s.Owner, int64(t.Date))
		}
		if err := b.exec(tx, `UPDATE webhook_deliveries SET queue = 1, lease_owner = '', due_at = v.column7 FROM `,
			ours+` AND lease_owner = v.column6`); err != nil {
			return err
		}
		_, err := tx.Exec(`DELETE FROM webhook_turns WHERE owner = $1`, s.Owner)
		return err
	})
}

// Inherit ends the leases and turns that a process left behind when it died. Nobody else may be at work on the database.
func (s *Store) Inherit(ctx context.Context) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		_, err1 := tx.Exec(`UPDATE webhook_deliveries SET queue = 1, lease_owner = '', due_at = date
			WHERE queue = 2 AND due_at <= $1 AND lease_owner <> ''`, stamp.Of(s.Now()).Add(leaseFor))
		_, err2 := tx.Exec(`DELETE FROM webhook_turns`)
		return errors.Join(err1, err2)
	})
}

// Finish writes how attempts ended: success, or failed and the chain's next one, with counters, in one transaction. A result whose
// delivery is no longer leased to this process changes nothing. It gives the ids that it finished.
func (s *Store) Finish(ctx context.Context, results []Result) (finished []string, err error) {
	ended := newBulk("text", "text", "text", "text", "text", "text", "text", "bigint", "text", "text")
	byID := make(map[string]Result, len(results))
	for _, r := range results {
		d := r.Delivery
		// A delivery whose lease ended and was claimed anew by this same process may end twice at once: the first counts.
		if _, twice := byID[d.ID]; twice {
			continue
		}
		response, fault, status := (*string)(nil), (*string)(nil), Success
		if r.Error != "" {
			text := clean(r.Error)
			fault, status = &text, Failed
		}
		if r.Response != nil {
			text, err := json.Marshal(r.Response)
			if err != nil {
				return nil, err
			}
			response = textOf(text)
		}
		ended.add(d.orgID, d.WebhookID, d.ID, d.DestinationID, d.ReceiptID, s.Owner, string(status), int64(r.At), fault, response)
		byID[d.ID] = r
	}
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := byIndex(tx); err != nil {
			return err
		}
		finished, err = collect(tx, tx.Dialect(), ended, scanText, `UPDATE webhook_deliveries SET queue = 0, lease_owner = '',
			status = v.column7, finished_at = v.column8, error = v.column9, response = v.column10 FROM `,
			ours+` AND lease_owner = v.column6 RETURNING id`)
		if err != nil {
			return err
		}
		return s.follow(tx, finished, byID)
	})
	return finished, err
}

// follow writes what comes after finished deliveries: disabled destinations, next attempts, counters.
func (s *Store) follow(tx *db.Tx, finished []string, results map[string]Result) error {
	sums, rows := newTally(s.Shard), newBulk(deliveryKinds...)
	slices.Sort(finished)
	enabled := map[string]bool{}
	for _, deliveryID := range finished {
		r := results[deliveryID]
		sums.finished(r.Delivery.orgID, r.At, r.Error == "")
		if r.Gone {
			if err := s.disableGone(tx, r.Delivery.DestinationID); err != nil {
				return err
			}
			enabled[r.Delivery.DestinationID] = false
		}
	}
	for _, deliveryID := range finished {
		next := results[deliveryID].next()
		if next == nil {
			continue
		}
		// A chain ends with its destination.
		on, known := enabled[next.DestinationID]
		if !known {
			to, err := destination(tx, next.DestinationID)
			if err != nil {
				return err
			}
			on = to != nil && !to.Config.Disabled
			enabled[next.DestinationID] = on
		}
		if on {
			addDelivery(rows, *next)
			sums.total(next.orgID, next.WebhookID, 0, 1)
		}
	}
	if err := rows.exec(tx, insertDeliveries, ""); err != nil {
		return err
	}
	return sums.write(tx)
}

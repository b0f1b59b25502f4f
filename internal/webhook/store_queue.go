package webhook

import (
	"context"
	"errors"
	"time"

	"steward/internal/db"
	"steward/internal/stamp"
)

const (
	// turnFor is how long a process may be silent before its destinations are free for others.
	turnFor = 30 * time.Second
	// promoteAtOnce is how many waiting deliveries become ready in one transaction.
	promoteAtOnce = 1000
)

// TakeTurns takes the turns of destinations for this process, or prolongs them. It tells until when, and which are now its own: those
// that nobody else has, or whose time was over.
func (s *Store) TakeTurns(ctx context.Context, destinationIDs []string) (until stamp.Time, mine []string, err error) {
	until = stamp.Of(s.Now()).Add(turnFor)
	wanted := newBulk("text", "text", "bigint")
	for _, destinationID := range destinationIDs {
		wanted.add(destinationID, s.Owner, int64(until))
	}
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		mine, err = collect(tx, tx.Dialect(), wanted, scanText, `INSERT INTO webhook_turns (destination_id, owner, until)
			SELECT v.column1, v.column2, v.column3 FROM `, ` WHERE true ON CONFLICT (destination_id) DO UPDATE
			SET owner = excluded.owner, until = excluded.until
			WHERE webhook_turns.owner = excluded.owner OR webhook_turns.until <= excluded.until - 30000000 RETURNING destination_id`)
		return err
	})
	return until, mine, err
}

// EndTurns gives back all turns of this process, so that another need not wait for their end.
func (s *Store) EndTurns(ctx context.Context) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(`DELETE FROM webhook_turns WHERE owner = $1`, s.Owner)
		return err
	})
}

// Inherit ends the turns that a process left behind when it died. Nobody else may be at work on the database.
func (s *Store) Inherit(ctx context.Context) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(`DELETE FROM webhook_turns`)
		return err
	})
}

// Promote makes deliveries ready whose time has come, and gives their destinations.
func (s *Store) Promote(ctx context.Context) (destinationIDs []string, err error) {
	now := stamp.Of(s.Now())
	var one int
	err = s.DB.Read(ctx).Row(`SELECT 1 FROM webhook_deliveries WHERE queue = 2 AND due_at <= $1 LIMIT 1`, now).Scan(&one)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := byIndex(tx); err != nil {
			return err
		}
		destinationIDs, err = db.Collect(tx, scanText, `UPDATE webhook_deliveries SET queue = 1 FROM (
			SELECT org_id AS column1, webhook_id AS column2, id AS column3, destination_id AS column4, receipt_id AS column5,
			due_at AS column6 FROM webhook_deliveries WHERE queue = 2 AND due_at <= $1 ORDER BY due_at LIMIT $2) AS v`+
			ours+` AND due_at = v.column6 AND queue = 2 RETURNING destination_id`, now, promoteAtOnce)
		return err
	})
	return destinationIDs, err
}

// ours joins deliveries with a table of their keys. It names the columns of all indexes: on a table without statistics PostgreSQL may
// take any of them, and with the primary key alone another one would be read from end to end. Who adds `queue = 1` adds due_at, too.
const ours = ` WHERE webhook_deliveries.org_id = v.column1 AND webhook_deliveries.webhook_id = v.column2
	AND webhook_deliveries.id = v.column3 AND webhook_deliveries.destination_id = v.column4 AND webhook_deliveries.receipt_id = v.column5`

// byIndex keeps PostgreSQL to index look-ups for the rest of the transaction. A plan that it made while the tables were small, and
// keeps, would read them whole once they are large: measured on a fresh database, a batch of 500 results took seconds.
func byIndex(tx *db.Tx) error {
	if tx.Dialect() != db.Postgres {
		return nil
	}
	return tx.Send(`SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
		set_config('enable_mergejoin', 'off', true), set_config('plan_cache_mode', 'force_custom_plan', true)`)
}

// oldest is the first ready delivery of a destination.
type oldest struct{ destinationID, deliveryID string }

// Oldest gives the oldest ready delivery of each destination that is not another process's turn. It jumps from one destination to the
// next in the index of ready rows, so its cost is the number of destinations with work, not of their deliveries.
func (s *Store) Oldest(ctx context.Context) ([]oldest, error) {
	return db.Collect(s.DB.Read(ctx), func(row db.Row) (o oldest, err error) {
		return o, row.Scan(&o.destinationID, &o.deliveryID)
	}, `WITH RECURSIVE d(id) AS (
			SELECT (SELECT destination_id FROM webhook_deliveries WHERE queue = 1 ORDER BY destination_id LIMIT 1)
			UNION ALL
			SELECT (SELECT destination_id FROM webhook_deliveries WHERE queue = 1 AND destination_id > d.id ORDER BY destination_id LIMIT 1)
			FROM d WHERE d.id IS NOT NULL)
		SELECT d.id, COALESCE((SELECT f.id FROM webhook_deliveries f WHERE f.queue = 1 AND f.destination_id = d.id
			ORDER BY f.due_at, f.id LIMIT 1), '') FROM d WHERE d.id IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM webhook_turns t WHERE t.destination_id = d.id AND t.owner <> $1 AND t.until > $2)`,
		s.Owner, stamp.Of(s.Now()))
}

func scanText(row db.Row) (text string, err error) { return text, row.Scan(&text) }

// ask is a wish for ready deliveries of a destination whose turn is ours, and the answer.
type ask struct {
	destinationID string
	held          map[string]*task // by id: what is in hand already
	want          int
	from          stamp.Time // no earlier ones are looked for; see readyOf

	destination *Destination // nil when it was deleted
	first       stamp.Time   // when the oldest was due, in hand or not
	tasks       []*task      // oldest first
	more        bool         // there may be others
}

// Ready reads deliveries that can be sent, with their receipts. It writes nothing: the turn keeps others away from them, and they stay
// ready until they are finished.
func (s *Store) Ready(ctx context.Context, asks []*ask) error {
	if s.DB.Dialect() == db.SQLite {
		return readyOf(s.DB.Read(ctx), db.SQLite, asks)
	}
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := byIndex(tx); err != nil {
			return err
		}
		return readyOf(tx, db.Postgres, asks)
	})
}

// readyOf begins where the last reading found its first row: PostgreSQL keeps those that were finished in the index until it is cleaned,
// and would pass by all of them each time.
func readyOf(q db.Querier, dialect db.Dialect, asks []*ask) (err error) {
	for _, a := range asks {
		if a.destination, err = destination(q, a.destinationID); err != nil {
			return err
		}
		limit := a.want + len(a.held)
		rows, err := db.Collect(q, scanReady, `SELECT org_id, webhook_id, id, destination_id, receipt_id, date, status, retries, due_at
			FROM webhook_deliveries WHERE queue = 1 AND destination_id = $1 AND due_at >= $2 ORDER BY due_at, id LIMIT $3`,
			a.destinationID, a.from, limit)
		if err != nil {
			return err
		}
		a.tasks, a.first, a.more = nil, a.from, len(rows) == limit
		if len(rows) > 0 {
			a.first = rows[0].due
		}
		for _, d := range rows {
			if a.held[d.ID] == nil {
				a.tasks = append(a.tasks, &task{Delivery: d})
			}
		}
	}
	return load(q, dialect, asks)
}

func scanReady(row db.Row) (d Delivery, err error) {
	return d, row.Scan(&d.orgID, &d.WebhookID, &d.ID, &d.DestinationID, &d.ReceiptID, &d.Date, &d.Status, &d.Retries, &d.due)
}

// load reads the receipts of deliveries, but for large bodies, which are read when they are sent.
func load(q db.Querier, dialect db.Dialect, asks []*ask) error {
	asked := newBulk("text", "text", "text")
	waiting := map[string][]*task{}
	for _, a := range asks {
		for _, t := range a.tasks {
			if waiting[t.ReceiptID] == nil {
				asked.add(t.orgID, t.WebhookID, t.ReceiptID)
			}
			waiting[t.ReceiptID] = append(waiting[t.ReceiptID], t)
		}
	}
	found, err := collect(q, dialect, asked, scanReceipt, `SELECT r.org_id, r.webhook_id, r.id, r.date, r.method, r.query,
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

package webhook

import (
	"context"
	"errors"
	"strconv"
	"time"

	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/stamp"
)

const (
	// turnFor is how long a process may be silent before its destinations are free for others.
	turnFor = 30 * time.Second
	// promoteAtOnce is how many waiting deliveries become ready in one transaction, promoteRounds is how many of these follow each other.
	promoteAtOnce = 1000
	promoteRounds = 4
)

var turnMicros = strconv.FormatInt(turnFor.Microseconds(), 10)

// TakeTurns takes the turns of destinations for this process, or prolongs them. It tells until when, and which are now its own: those
// that nobody else has, or whose time was over.
func (s *Store) TakeTurns(ctx context.Context, destinationIDs []string) (until stamp.Time, mine []string, err error) {
	until = stamp.Of(s.Now()).Add(turnFor)
	wanted := db.NewBulk(db.Text, db.Text, db.Int)
	for _, destinationID := range destinationIDs {
		wanted.Add(destinationID, s.Owner, int64(until))
	}
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		mine, err = db.CollectBulk(tx, wanted, scanText, `INSERT INTO webhook_turns (destination_id, owner, until)
			SELECT v.column1, v.column2, v.column3 FROM {v} WHERE true ON CONFLICT (destination_id) DO UPDATE
			SET owner = excluded.owner, until = excluded.until
			WHERE webhook_turns.owner = excluded.owner OR webhook_turns.until <= excluded.until - `+turnMicros+` RETURNING destination_id`)
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

// forgetTurns removes what processes that died have left behind of destinations that nobody sends to any more.
func (s *Store) forgetTurns(ctx context.Context) error {
	before := stamp.Of(s.Now()).Add(-graveFor)
	var one int
	err := s.DB.Read(ctx).Row(`SELECT 1 FROM webhook_turns WHERE until < $1 LIMIT 1`, before).Scan(&one)
	if errors.Is(err, db.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(`DELETE FROM webhook_turns WHERE until < $1`, before)
		return err
	})
}

// Promote makes deliveries ready whose time has come, and gives their destinations.
func (s *Store) Promote(ctx context.Context) (destinationIDs []string, err error) {
	now := stamp.Of(s.Now())
	var one int
	err = s.DB.Read(ctx).Row(`SELECT 1 FROM webhook_queue WHERE NOT ready AND due_at <= $1 LIMIT 1`, now).Scan(&one)
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
		destinationIDs, err = db.Collect(tx, scanText, `UPDATE webhook_queue SET ready = true FROM (
			SELECT key AS column1, due_at AS column2 FROM webhook_queue WHERE NOT ready AND due_at <= $1 ORDER BY due_at LIMIT $2) AS v
			WHERE webhook_queue.key = v.column1 AND due_at = v.column2 AND NOT ready RETURNING destination_id`, now, promoteAtOnce)
		return err
	})
	return destinationIDs, err
}

// byIndex has PostgreSQL look up rows by index for the rest of the transaction, with a plan that it makes once and keeps. Left to itself it
// makes one for tables that are small, and keeps it when they are large: measured on a fresh database, a batch of 500 results took seconds.
// So did a list of all that is pending, made once and searched for each result, when its statistics were from a moment when little was. To
// make a plan for each batch took a tenth of the server's time.
func byIndex(tx *db.Tx) error {
	if tx.Dialect() != db.Postgres {
		return nil
	}
	return tx.Send(`SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
		set_config('enable_mergejoin', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_material', 'off', true),
		set_config('max_parallel_workers_per_gather', '0', true), set_config('jit', 'off', true),
		set_config('plan_cache_mode', 'force_generic_plan', true)`)
}

// oldest is the first ready delivery of a destination.
type oldest struct{ destinationID, deliveryID string }

// Oldest gives the oldest ready delivery of each destination that is not another process's turn. It jumps from one destination to the
// next in the index of ready rows, so its cost is the number of destinations with work, not of their deliveries.
func (s *Store) Oldest(ctx context.Context) ([]oldest, error) {
	return db.Collect(s.DB.Read(ctx), func(row db.Row) (o oldest, err error) {
		return o, row.Scan(&o.destinationID, &o.deliveryID)
	}, `WITH RECURSIVE d(id) AS (
			SELECT (SELECT destination_id FROM webhook_queue WHERE ready ORDER BY destination_id LIMIT 1)
			UNION ALL
			SELECT (SELECT destination_id FROM webhook_queue WHERE ready AND destination_id > d.id ORDER BY destination_id LIMIT 1)
			FROM d WHERE d.id IS NOT NULL)
		SELECT d.id, COALESCE((SELECT `+idOfDelivery+` FROM webhook_queue f WHERE f.ready AND f.destination_id = d.id
			ORDER BY f.due_at, f.key LIMIT 1), '') FROM d WHERE d.id IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM webhook_turns t WHERE t.destination_id = d.id AND t.owner <> $1 AND t.until > $2)`,
		s.Owner, stamp.Of(s.Now()))
}

func scanText(row db.Row) (text string, err error) { return text, row.Scan(&text) }

// place is where a delivery stands among the ready ones of its destination. The zero value is before all.
type place struct {
	due stamp.Time
	key string
}

func (p place) before(o place) bool { return p.due < o.due || p.due == o.due && p.key < o.key }

// ask is a wish for ready deliveries of a destination whose turn is ours, and the answer.
type ask struct {
	destinationID string
	from          place            // only later ones
	held          map[string]*task // what is in hand, and may be read again
	limit         int
	bytes         int64 // of what is not in hand; one delivery may exceed it

	destination *Destination // nil when it was deleted
	tasks       []*task      // in their order
	more        bool         // there may be others
}

// inlineBody is the largest body that is read with its delivery. Others are read when they are sent.
const inlineBody = 64 << 10

// Ready reads deliveries that can be sent, with their receipts. It writes nothing: the turn keeps others away from them, and they stay
// ready until they are finished.
func (s *Store) Ready(ctx context.Context, asks []*ask) error {
	if s.DB.Dialect() == db.SQLite {
		return readyOf(s.DB.Read(ctx), asks)
	}
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := byIndex(tx); err != nil {
			return err
		}
		return readyOf(tx, asks)
	})
}

func readyOf(q db.Querier, asks []*ask) (err error) {
	for _, a := range asks {
		if a.destination, err = destination(q, a.destinationID); err != nil {
			return err
		}
		a.tasks, a.more = nil, false
		left := a.bytes
		for row, err := range db.Each(q, (*readyRow).columns, `SELECT d.key, d.receipt_key, d.org_id, d.date, d.retries, d.due_at,
			r.method, r.size, r.headers, CASE WHEN r.size <= `+strconv.Itoa(inlineBody)+` THEN r.body END
			FROM webhook_queue d LEFT JOIN webhook_receipts r ON r.key = d.receipt_key
			WHERE d.ready AND d.destination_id = $1 AND (d.due_at, d.key) > ($2, $3) ORDER BY d.due_at, d.key LIMIT $4`,
			a.destinationID, a.from.due, a.from.key, a.limit) {
			if err != nil {
				return err
			}
			t := row.task(a.destinationID)
			a.tasks = append(a.tasks, t)
			if a.held[t.ID] == nil {
				left -= t.bytes()
			}
			if a.more = left <= 0 || len(a.tasks) == a.limit; a.more {
				break
			}
		}
	}
	return nil
}

// readyRow is a row of the queue with what is needed of its receipt, which may be gone.
type readyRow struct {
	key, receiptKey string
	orgID           string
	date, due       stamp.Time
	retries         int64
	method, headers *string
	size            *int64
	body            []byte
}

func (r *readyRow) columns() []any {
	return []any{
		&r.key, &r.receiptKey, &r.orgID, (*int64)(&r.date), &r.retries, (*int64)(&r.due), &r.method, &r.size, &r.headers, &r.body,
	}
}

func (r *readyRow) task(destinationID string) *task {
	webhookID, deliveryID := idsOf(r.key, id.Delivery)
	_, receiptID := idsOf(r.receiptKey, id.Receipt)
	t := &task{Delivery: Delivery{
		ID: deliveryID, Date: r.date, WebhookID: webhookID, DestinationID: destinationID, ReceiptID: receiptID, Status: Pending,
		Retries: int(r.retries), orgID: r.orgID, ready: true, due: r.due, rowKey: r.key,
	}}
	if r.method != nil {
		t.receipt = &Receipt{ID: receiptID, WebhookID: webhookID, Method: *r.method, Size: *r.size, headerText: *r.headers, body: r.body}
	}
	return t
}

// Body gives a receipt's body, and reads it if Ready left it out. ErrNoRows when it is gone.
func (s *Store) Body(ctx context.Context, r *Receipt) ([]byte, error) {
	if int64(len(r.body)) == r.Size {
		return r.body, nil
	}
	whole, err := receipt(s.DB.Read(ctx), r.WebhookID, r.ID)
	return whole.body, err
}

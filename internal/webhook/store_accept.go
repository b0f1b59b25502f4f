package webhook

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/stamp"
	"steward/internal/webhook/eventlog"
	"steward/internal/webhook/send"
)

// queueChanged is the name under which replicas notify each other of new rows in the queue.
const queueChanged = "webhook.queue"

// arrival is a receipt that is to be stored.
type arrival struct {
	receipt *Receipt
	err     error // what is wrong with this one alone
}

// Bytes is about what the receipt adds to a transaction.
func (a *arrival) Bytes() int { return 512 + len(a.receipt.headerText) + len(a.receipt.body) }

// hookKey names a webhook of an organization.
type hookKey struct{ orgID, webhookID string }

func (r *Receipt) hook() hookKey { return hookKey{r.orgID, r.WebhookID} }

// errNoWebhook is the error for every wrong ingest URL.
func errNoWebhook() error { return errs.New(errs.NotFound, "there is no webhook at this URL") }

// Accept stores a receipt with its deliveries and counters, together with those that arrive at the
// same time; nil means that it is durable. It returns NotFound if the webhook is gone; other errors
// are those of db.Write.
func (s *Store) Accept(ctx context.Context, a *arrival) error {
	if err := s.arrivals.Do(ctx, s.DB, a, s.acceptBatch); err != nil {
		return err
	}
	return a.err
}

// AcceptEventsTx stores events of the system as receipts of an internal webhook, in the transaction
// that makes them true. It stores nothing while the webhook has no destination.
func (s *Store) AcceptEventsTx(tx *db.Tx, orgID, webhookID string, events [][]byte) error {
	var destinations int
	if err := tx.Row(`SELECT count(*) FROM webhook_destinations WHERE org_id = $1 AND webhook_id = $2`,
		orgID, webhookID).Scan(&destinations); err != nil {
		return fmt.Errorf("count destinations: %w", err)
	}
	if destinations == 0 {
		return nil
	}
	headers := s.sealHeaders(webhookID, send.MarshalFields(send.FieldsOf(map[string]string{"content-type": "application/json"})))
	batch := make([]*arrival, len(events))
	for i, body := range events {
		batch[i] = &arrival{receipt: &Receipt{
			WebhookID: webhookID, Method: "POST", ContentType: "application/json", Size: int64(len(body)),
			orgID: orgID, body: body, headerText: headers,
		}}
	}
	if err := s.acceptBatch(tx, batch); err != nil {
		return err
	}
	for _, a := range batch {
		if a.err != nil {
			return a.err
		}
	}
	return nil
}

// acceptBatch stores receipts and their deliveries, and wakes the scheduler after the commit.
func (s *Store) acceptBatch(tx *db.Tx, batch []*arrival) error {
	enabled, err := enabledDestinations(tx, batch)
	if err != nil {
		return err
	}
	now := s.Now()
	receipts := db.NewBulk(db.Text, db.Int, db.Text, db.Text, db.Text, db.Text, db.Int, db.Text, db.Bytes)
	deliveries := newDeliveryRows()
	sums := newTally()
	log := eventLog{}
	woken := map[string]bool{}
	for _, a := range batch {
		r := a.receipt
		destinationIDs, exists := enabled[r.hook()]
		if !exists {
			a.err = errNoWebhook()
			continue
		}
		a.err = nil
		r.ID = id.At(id.Receipt, now)
		r.Date = stamp.Of(now)
		if r.body == nil {
			r.body = []byte{} // nil would be NULL
		}
		key := rowKey(r.WebhookID, r.ID)
		log.add(r.orgID, key)
		receipts.Add(key, int64(r.Date), r.Method, r.Query, r.RemoteAddr, r.ContentType, r.Size, r.headerText, r.body)
		sums.received(r)
		for _, destinationID := range destinationIDs {
			d := newDelivery(r.orgID, r.WebhookID, destinationID, r.ID, now)
			d.size = int64(len(r.headerText) + len(r.body))
			deliveries.add(d)
			sums.scheduled(d)
			woken[destinationID] = true
		}
	}
	if err := receipts.Send(tx, `INSERT INTO webhook_receipts
		(key, date, method, query, remote_addr, content_type, size, headers, body)
		SELECT v.column1, v.column2, v.column3, v.column4, v.column5, v.column6, v.column7, v.column8, v.column9 FROM {v}`); err != nil {
		return fmt.Errorf("insert receipts: %w", err)
	}
	if err := deliveries.insert(tx); err != nil {
		return err
	}
	if err := s.logEvents(tx, eventlog.Receipt, stamp.Of(now), log); err != nil {
		return err
	}
	if len(woken) > 0 {
		tx.OnCommit(func() { s.wake(slices.Collect(maps.Keys(woken))) })
	}
	return sums.write(tx)
}

// wake tells this process and other replicas that rows were added to the queues of destinations.
func (s *Store) wake(destinationIDs []string) {
	if s.Wake != nil {
		s.Wake(destinationIDs)
	}
	s.DB.Notify(queueChanged)
}

// enabledDestinations returns the enabled destinations of the webhooks of a batch. A webhook that
// is gone has no entry.
func enabledDestinations(tx *db.Tx, batch []*arrival) (map[hookKey][]string, error) {
	hooks := db.NewBulk(db.Text, db.Text)
	enabled := map[hookKey][]string{}
	for _, a := range batch {
		if _, added := enabled[a.receipt.hook()]; !added {
			enabled[a.receipt.hook()] = nil
			hooks.Add(a.receipt.orgID, a.receipt.WebhookID)
		}
	}
	clear(enabled)
	type row struct {
		hook          hookKey
		destinationID *string
	}
	rows, err := db.CollectBulk(tx, hooks, func(r db.Row) (row, error) {
		var found row
		err := r.Scan(&found.hook.orgID, &found.hook.webhookID, &found.destinationID)
		return found, err
	}, `SELECT w.org_id, w.id, d.id FROM {v} JOIN webhooks w ON w.org_id = v.column1 AND w.id = v.column2
		LEFT JOIN webhook_destinations d ON d.org_id = w.org_id AND d.webhook_id = w.id AND NOT d.disabled ORDER BY w.id, d.id`)
	if err != nil {
		return nil, fmt.Errorf("read destinations: %w", err)
	}
	for _, r := range rows {
		ids := enabled[r.hook]
		if r.destinationID != nil {
			ids = append(ids, *r.destinationID)
		}
		enabled[r.hook] = ids
	}
	return enabled, nil
}

// deliveryRows are pending deliveries to be inserted, each with its row in the queue.
type deliveryRows struct{ rows *db.Bulk }

func newDeliveryRows() deliveryRows {
	return deliveryRows{db.NewBulk(db.Text, db.Text, db.Text, db.Int, db.Int, db.Text, db.Text, db.Int, db.Int, db.Text)}
}

func (r deliveryRows) add(d Delivery) {
	r.rows.Add(d.key, d.DestinationID, d.ReceiptID, int64(d.Date), int64(d.Retries),
		rowKey(d.WebhookID, d.ReceiptID), d.orgID, int64(d.due), d.size, d.ReplayID)
}

func (r deliveryRows) insert(tx *db.Tx) error {
	if err := r.rows.Send(tx, `INSERT INTO webhook_deliveries (key, destination_id, receipt_id, date, retries, replay_id, status, failed)
		SELECT v.column1, v.column2, v.column3, v.column4, v.column5, v.column10, 'pending', false FROM {v}`); err != nil {
		return fmt.Errorf("insert deliveries: %w", err)
	}
	if err := r.rows.Send(tx, `INSERT INTO webhook_queue (key, destination_id, date, retries, receipt_key, org_id, due_at, size, replay_id)
		SELECT v.column1, v.column2, v.column4, v.column5, v.column6, v.column7, v.column8, v.column9, v.column10 FROM {v}`); err != nil {
		return fmt.Errorf("insert into queue: %w", err)
	}
	return nil
}

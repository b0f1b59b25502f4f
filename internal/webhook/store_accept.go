package webhook

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/stamp"
	"steward/internal/webhook/eventlog"
	"steward/internal/webhook/filter"
	"steward/internal/webhook/queue"
	"steward/internal/webhook/send"
)

// arrival is a receipt to store.
type arrival struct {
	receipt *Receipt
	event   filter.Event // what filters see of it
	// decided has the filters that were evaluated before the transaction, by their text.
	decided map[string]bool
	// dedupeKey is its key in webhook_dedupe, which it claims for dedupeFor; "" if it has none.
	dedupeKey   string
	dedupeFor   time.Duration
	isDuplicate bool  // an earlier receipt has its key; receipt.ID is that one's
	err         error // a fault in this receipt alone
}

// Bytes estimates how much the receipt adds to a transaction.
func (a *arrival) Bytes() int { return 512 + len(a.receipt.headerText) + len(a.receipt.body) }

// Org returns the webhook's organization, for db.Gather.
func (a *arrival) Org() string { return a.receipt.orgID }

// hookKey names an organization's webhook.
type hookKey struct{ orgID, webhookID string }

func (r *Receipt) hook() hookKey { return hookKey{r.orgID, r.WebhookID} }

func (r *Receipt) key() string { return rowKey(r.WebhookID, r.ID) }

// errNoWebhook is the error for every wrong ingest URL.
func errNoWebhook() error { return errs.New(errs.NotFound, "there is no webhook at this URL") }

// Accept stores a receipt with its deliveries and counters, in one transaction with others that arrive
// at the same time. Once it returns nil, the receipt is durable, or the one it repeats. It returns
// NotFound if the webhook is gone, and otherwise errors from db.Write.
func (s *Store) Accept(ctx context.Context, a *arrival) error {
	if err := s.arrivals.Do(ctx, s.DB, a, s.acceptBatch); err != nil {
		return err
	}
	return a.err
}

// AcceptEventsTx stores system events as an internal webhook's receipts, in the transaction that makes
// them true. It stores nothing while the webhook has no destination.
func (s *Store) AcceptEventsTx(tx *db.Tx, orgID, webhookID string, events [][]byte) error {
	var destinations int
	if err := tx.Row(`SELECT count(*) FROM webhook_destinations WHERE org_id = $1 AND webhook_id = $2`,
		orgID, webhookID).Scan(&destinations); err != nil {
		return fmt.Errorf("count destinations: %w", err)
	}
	if destinations == 0 {
		return nil
	}
	plain := send.MarshalFields(send.FieldsOf(map[string]string{"content-type": "application/json"}))
	headers := s.sealHeaders(webhookID, plain)
	batch := make([]*arrival, len(events))
	for i, body := range events {
		r := &Receipt{
			WebhookID: webhookID, Method: "POST", ContentType: "application/json", Size: int64(len(body)),
			orgID: orgID, body: body, headerText: headers,
		}
		batch[i] = &arrival{receipt: r, event: eventOf(r, plain)}
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

// receiptRow is a row in webhook_receipts.
type receiptRow struct {
	Key                                    string
	Date                                   stamp.Time
	Method, Query, RemoteAddr, ContentType string
	Size                                   int64
	Headers                                string
	Body                                   []byte
}

// acceptBatch stores receipts and their deliveries, and wakes the scheduler after the commit.
func (s *Store) acceptBatch(tx *db.Tx, batch []*arrival) error {
	enabled, err := enabledDestinations(tx, batch)
	if err != nil {
		return err
	}
	now := s.Now()
	accepted := make([]*arrival, 0, len(batch))
	for _, a := range batch {
		destinations, exists := enabled[a.receipt.hook()]
		a.err = nil
		a.isDuplicate = false
		switch {
		case !exists:
			a.err = errNoWebhook()
		case a.isUndecided(destinations):
			a.err = errUndecided
		default:
			a.receipt.ID = id.At(id.Receipt, now)
			accepted = append(accepted, a)
		}
	}
	if err := dedupe(tx, accepted, now); err != nil {
		return err
	}
	receipts := make(db.Bulk[receiptRow], 0, len(accepted))
	deliveries := db.Bulk[queue.Row]{}
	filtered := db.Bulk[filteredRow]{}
	sums := newTally()
	log := eventLog{}
	woken := map[string]bool{}
	for _, a := range accepted {
		if a.isDuplicate {
			continue
		}
		r := a.receipt
		r.Date = stamp.Of(now)
		if r.body == nil {
			r.body = []byte{} // nil would become NULL
		}
		key := r.key()
		log.add(r.orgID, key)
		receipts = append(receipts, receiptRow{
			Key: key, Date: r.Date, Method: r.Method, Query: r.Query, RemoteAddr: r.RemoteAddr, ContentType: r.ContentType,
			Size: r.Size, Headers: r.headerText, Body: r.body,
		})
		refused := 0
		for _, to := range enabled[r.hook()] {
			if to.filter != nil && !s.wants(*to.filter, a) {
				refused++
				continue
			}
			d := newAttempt(queue.Row{
				OrgID: r.orgID, DestinationID: to.id, ReceiptKey: key, Size: int64(len(r.headerText) + len(r.body)),
			}, now)
			deliveries = append(deliveries, d)
			sums.scheduled(d)
			woken[to.id] = true
		}
		sums.received(r, refused)
		if refused > 0 {
			filtered = append(filtered, filteredRow{Key: key, Destinations: refused})
		}
	}
	if err := receipts.Send(tx, `INSERT INTO webhook_receipts
		(key, date, method, query, remote_addr, content_type, size, headers, body)
		SELECT v.key, v.date, v.method, v.query, v.remote_addr, v.content_type, v.size, v.headers, v.body FROM {v}`); err != nil {
		return fmt.Errorf("insert receipts: %w", err)
	}
	if err := filtered.Send(tx, `INSERT INTO webhook_filtered (key, destinations) SELECT v.key, v.destinations FROM {v}`); err != nil {
		return fmt.Errorf("insert filtered receipts: %w", err)
	}
	if err := insertDeliveries(tx, deliveries); err != nil {
		return err
	}
	if err := s.logEvents(tx, eventlog.Receipt, stamp.Of(now), log); err != nil {
		return err
	}
	if len(woken) > 0 {
		tx.OnCommit(func() { s.Queue.Notify(slices.Collect(maps.Keys(woken))) })
	}
	return sums.write(tx)
}

// receiver is an enabled destination, with its filter if it has one.
type receiver struct {
	id     string
	filter *string
}

// enabledDestinations returns the enabled destinations of a batch's webhooks. A webhook that is gone
// has no entry.
func enabledDestinations(tx *db.Tx, batch []*arrival) (map[hookKey][]receiver, error) {
	type hookRow struct{ OrgID, ID string }
	hooks := db.Bulk[hookRow]{}
	enabled := map[hookKey][]receiver{}
	for _, a := range batch {
		if _, added := enabled[a.receipt.hook()]; !added {
			enabled[a.receipt.hook()] = nil
			hooks = append(hooks, hookRow{OrgID: a.receipt.orgID, ID: a.receipt.WebhookID})
		}
	}
	clear(enabled)
	type row struct {
		hook          hookKey
		destinationID *string
		filter        *string
	}
	rows, err := db.CollectBulk(tx, hooks, func(r db.Row) (row, error) {
		var found row
		err := r.Scan(&found.hook.orgID, &found.hook.webhookID, &found.destinationID, &found.filter)
		return found, err
	}, `SELECT w.org_id, w.id, d.id, d.filter FROM {v} JOIN webhooks w ON w.org_id = v.org_id AND w.id = v.id
		LEFT JOIN webhook_destinations d ON d.org_id = w.org_id AND d.webhook_id = w.id AND NOT d.disabled ORDER BY w.id, d.id`)
	if err != nil {
		return nil, fmt.Errorf("read destinations: %w", err)
	}
	for _, r := range rows {
		ids := enabled[r.hook]
		if r.destinationID != nil {
			ids = append(ids, receiver{*r.destinationID, r.filter})
		}
		enabled[r.hook] = ids
	}
	return enabled, nil
}

// deliveryRow is a pending delivery to insert.
type deliveryRow struct {
	Key, DestinationID, ReceiptID string
	Date                          stamp.Time
	Retries                       int
	ReplayID                      string
}

// insertDeliveries inserts pending deliveries and queues them.
func insertDeliveries(tx *db.Tx, rows db.Bulk[queue.Row]) error {
	deliveries := make(db.Bulk[deliveryRow], len(rows))
	for i, r := range rows {
		deliveries[i] = deliveryRow{
			Key: r.Key, DestinationID: r.DestinationID, ReceiptID: r.ReceiptID(), Date: r.Date, Retries: r.Retries, ReplayID: r.ReplayID,
		}
	}
	if err := deliveries.Send(tx, `INSERT INTO webhook_deliveries (key, destination_id, receipt_id, date, retries, replay_id, status, failed)
		SELECT v.key, v.destination_id, v.receipt_id, v.date, v.retries, v.replay_id, 'pending', false FROM {v}`); err != nil {
		return fmt.Errorf("insert deliveries: %w", err)
	}
	return queue.Insert(tx, rows)
}

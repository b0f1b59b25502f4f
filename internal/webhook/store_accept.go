package webhook

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/stamp"
)

// arrival is a receipt on its way to the database, and what became of it.
type arrival struct {
	receipt *Receipt
	made    []*task // its deliveries
	err     error
}

// Bytes is about how much it adds to a transaction.
func (a *arrival) Bytes() int { return 512 + len(a.receipt.headerText) + len(a.receipt.body) }

func (r *Receipt) hook() hookKey { return hookKey{r.orgID, r.WebhookID} }

// notHere is what every wrong ingest URL is told.
func notHere() error { return errs.New(errs.NotFound, "there is no webhook at this address") }

// Accept writes a receipt with its deliveries and counters, together with those that arrive at the same time; nil means that it is
// durable. NotFound when its webhook is gone; other errors are those of db.Write.
func (s *Store) Accept(ctx context.Context, a *arrival) error {
	err := s.arrivals.Do(ctx, s.DB, a, s.acceptAll)
	if err != nil {
		s.Lanes.settle(a.made, false)
		return err
	}
	return a.err
}

// acceptAll writes a batch. After the commit the lanes have the deliveries, so that they can be sent without being read.
func (s *Store) acceptAll(tx *db.Tx, batch []*arrival) error {
	for _, a := range batch {
		s.Lanes.settle(a.made, false) // of an earlier try
		a.made = nil
	}
	if err := s.accept(tx, batch); err != nil {
		return err
	}
	var made []*task
	for _, a := range batch {
		made = append(made, a.made...)
	}
	s.Lanes.announce(made)
	tx.OnCommit(func() { s.Lanes.settle(made, true) })
	return nil
}

// AcceptInternalTx records an event of the system as a receipt of an internal webhook, inside the transaction that makes the event
// true, and gives its id. An unknown webhook is NotFound.
func (s *Store) AcceptInternalTx(tx *db.Tx, orgID, webhookID string, headers map[string]string, body []byte) (string, error) {
	a := &arrival{receipt: &Receipt{
		WebhookID: webhookID, Method: "POST", ContentType: headers["content-type"], Size: int64(len(body)),
		orgID: orgID, body: body, headerText: headerText(fieldsOf(headers)),
	}}
	err := s.accept(tx, []*arrival{a})
	if err == nil {
		err = a.err
	}
	if err != nil {
		return "", err
	}
	tx.OnCommit(func() {
		for _, t := range a.made { // other transactions may have been quicker: these are read in their order
			s.Lanes.more(t.DestinationID)
		}
	})
	return a.receipt.ID, nil
}

func (s *Store) accept(tx *db.Tx, batch []*arrival) error {
	targets, err := s.targets(tx, batch)
	if err != nil {
		return err
	}
	now := s.Now()
	at := stamp.Of(now)
	receipts, deliveries := db.NewBulk(receiptKinds...), db.NewBulk(deliveryKinds...)
	sums := newTally(s.shard(ofAccept))
	for _, a := range batch {
		r := a.receipt
		fanOut, known := targets[r.hook()]
		if !known {
			a.err = notHere()
			continue
		}
		a.err = nil
		if r.body == nil {
			r.body = []byte{} // nil would be NULL
		}
		r.ID, r.Date = id.At(id.Receipt, now), at
		receipts.Add(rowKey(r.WebhookID, r.ID), int64(at), r.Method, r.Query, r.RemoteAddr, r.ContentType, r.Size, r.headerText, r.body)
		sums.received(r.orgID, r.WebhookID, at, len(fanOut))
		for _, destinationID := range fanOut {
			d := Delivery{
				ID: id.At(id.Delivery, now), Date: at, WebhookID: r.WebhookID, DestinationID: destinationID, ReceiptID: r.ID,
				Status: Pending, orgID: r.orgID, ready: true, due: at,
			}
			addDelivery(deliveries, d)
			a.made = append(a.made, &task{Delivery: d, receipt: r})
		}
	}
	err = receipts.Send(tx, insertReceipts)
	if err == nil {
		err = enqueue(tx, deliveries)
	}
	if err == nil {
		err = sums.write(tx) // last: these rows are shared with other transactions
	}
	return err
}

// targets gives the enabled destinations of the batch's webhooks, oldest first; a webhook that is not there is not in the map.
func (s *Store) targets(tx *db.Tx, batch []*arrival) (map[hookKey][]string, error) {
	asked := map[hookKey]bool{}
	for _, a := range batch {
		asked[a.receipt.hook()] = true
	}
	return s.fanOuts.Get(tx, destinationsChanged, slices.Collect(maps.Keys(asked)), func(hooks []hookKey) (map[hookKey][]string, error) {
		rows := db.NewBulk(db.Text, db.Text)
		for _, h := range hooks {
			rows.Add(h.orgID, h.webhookID)
		}
		all, err := db.CollectBulk(tx, rows, scanTarget, `SELECT w.org_id, w.id, d.id
			FROM {v} JOIN webhooks w ON w.org_id = v.column1 AND w.id = v.column2
			LEFT JOIN webhook_destinations d ON d.org_id = w.org_id AND d.webhook_id = w.id AND NOT d.disabled ORDER BY w.id, d.id`)
		found := map[hookKey][]string{}
		for _, t := range all {
			if found[t.hookKey] == nil {
				found[t.hookKey] = []string{}
			}
			if t.destinationID != nil {
				found[t.hookKey] = append(found[t.hookKey], *t.destinationID)
			}
		}
		return found, err
	})
}

// target is a webhook with one of its destinations, or with none.
type target struct {
	hookKey
	destinationID *string
}

func scanTarget(row db.Row) (t target, err error) {
	return t, row.Scan(&t.orgID, &t.webhookID, &t.destinationID)
}

var (
	receiptKinds  = []db.Kind{db.Text, db.Int, db.Text, db.Text, db.Text, db.Text, db.Int, db.Text, db.Bytes}
	deliveryKinds = []db.Kind{db.Text, db.Text, db.Text, db.Int, db.Int, db.Text, db.Text, db.Bool, db.Int}

	insertReceipts = insertFrom("webhook_receipts", "key, date, method, query, remote_addr, content_type, size, headers, body")
)

// Both take the same columns.
const (
	insertDeliveries = `INSERT INTO webhook_deliveries (key, destination_id, receipt_id, date, retries, status, failed)
	SELECT v.column1, v.column2, v.column3, v.column4, v.column5, 'pending', false FROM {v}`
	insertQueue = `INSERT INTO webhook_queue (key, destination_id, date, retries, receipt_key, org_id, ready, due_at)
	SELECT v.column1, v.column2, v.column4, v.column5, v.column6, v.column7, v.column8, v.column9 FROM {v}`
)

// insertFrom is a bulk insert, up to what it does about conflicts.
func insertFrom(table, columns string) string {
	var from []string
	for i := range strings.Split(columns, ",") {
		from = append(from, fmt.Sprintf("v.column%d", i+1))
	}
	return "INSERT INTO " + table + " (" + columns + ") SELECT " + strings.Join(from, ", ") + " FROM {v}"
}

func addDelivery(b *db.Bulk, d Delivery) {
	b.Add(d.key(), d.DestinationID, d.ReceiptID, int64(d.Date), int64(d.Retries), rowKey(d.WebhookID, d.ReceiptID), d.orgID, d.ready,
		int64(d.due))
}

// enqueue writes pending deliveries that addDelivery has gathered: each is a row of its own, and one of the queue.
func enqueue(tx *db.Tx, deliveries *db.Bulk) error {
	if err := deliveries.Send(tx, insertDeliveries); err != nil {
		return err
	}
	return deliveries.Send(tx, insertQueue)
}

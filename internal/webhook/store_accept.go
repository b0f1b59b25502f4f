package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/stamp"
)

// arrival is a receipt on its way to the database.
type arrival struct {
	receipt *Receipt
	done    chan struct{}
	err     error
}

// notHere is what every wrong ingest URL is told.
func notHere() error { return errs.New(errs.NotFound, "there is no webhook at this address") }

// Accept writes receipts with their deliveries and counters in one transaction; nil means that they are durable. An arrival whose
// webhook is gone gets its own error and nothing is stored for it. Errors are those of db.Write. After the commit the lanes have the
// deliveries, so that they can be sent without being read.
func (s *Store) Accept(ctx context.Context, batch []*arrival) error {
	var made []*task
	err := s.DB.Write(ctx, func(tx *db.Tx) (err error) {
		s.Lanes.settle(made, false) // of an earlier try
		made, err = s.accept(tx, batch)
		s.Lanes.announce(made)
		return err
	})
	s.Lanes.settle(made, err == nil)
	return err
}

// AcceptInternalTx records an event of the system as a receipt of an internal webhook, inside the transaction that makes the event
// true, and gives its id. An unknown webhook is NotFound.
func (s *Store) AcceptInternalTx(tx *db.Tx, orgID, webhookID string, headers map[string]string, body []byte) (string, error) {
	text, err := json.Marshal(headers)
	if err != nil {
		return "", err
	}
	a := &arrival{receipt: &Receipt{
		WebhookID: webhookID, Method: "POST", Headers: headers, ContentType: headers["content-type"], Size: int64(len(body)),
		orgID: orgID, body: body, headerText: string(text),
	}}
	made, err := s.accept(tx, []*arrival{a})
	if err == nil {
		err = a.err
	}
	if err != nil {
		return "", err
	}
	tx.OnCommit(func() {
		for _, t := range made { // other transactions may have been quicker: these are read in their order
			s.Lanes.more(t.DestinationID)
		}
	})
	return a.receipt.ID, nil
}

func (s *Store) accept(tx *db.Tx, batch []*arrival) (made []*task, err error) {
	targets, err := s.targets(tx, batch)
	if err != nil {
		return nil, err
	}
	now := s.Now()
	at := stamp.Of(now)
	receipts, deliveries := newBulk(receiptKinds...), newBulk(deliveryKinds...)
	sums := newTally(s.Shard)
	for _, a := range batch {
		r := a.receipt
		fanOut, known := targets[r.WebhookID]
		if !known {
			a.err = notHere()
			continue
		}
		a.err = nil
		r.ID, r.Date = id.At(id.Receipt, now), at
		receipts.add(r.orgID, r.WebhookID, r.ID, int64(at), r.Method, r.Query, r.RemoteAddr, r.ContentType, r.Size, r.headerText, r.body)
		sums.received(r.orgID, r.WebhookID, at, len(fanOut))
		for _, destinationID := range fanOut {
			d := Delivery{
				ID: id.At(id.Delivery, now), Date: at, WebhookID: r.WebhookID, DestinationID: destinationID, ReceiptID: r.ID,
				Status: Pending, orgID: r.orgID, queue: queueReady, due: at,
			}
			addDelivery(deliveries, d)
			made = append(made, &task{Delivery: d, receipt: r})
		}
	}
	err = receipts.exec(tx, insertReceipts, "")
	if err == nil {
		err = deliveries.exec(tx, insertDeliveries, "")
	}
	if err == nil {
		err = sums.write(tx) // last: these rows are shared with other transactions
	}
	return made, err
}

// targets gives the enabled destinations of the batch's webhooks, oldest first; a webhook that is not there is not in the map.
func (s *Store) targets(tx *db.Tx, batch []*arrival) (map[string][]string, error) {
	found := map[string][]string{}
	asked := newBulk("text", "text")
	for _, a := range batch {
		if _, seen := found[a.receipt.WebhookID]; !seen {
			found[a.receipt.WebhookID] = nil
			asked.add(a.receipt.orgID, a.receipt.WebhookID)
		}
	}
	clear(found)
	rows, err := collect(tx, tx.Dialect(), asked, scanTarget, `SELECT w.id, COALESCE(d.id, '') FROM `,
		` JOIN webhooks w ON w.org_id = v.column1 AND w.id = v.column2
		LEFT JOIN webhook_destinations d ON d.org_id = w.org_id AND d.webhook_id = w.id AND NOT d.disabled ORDER BY w.id, d.id`)
	for _, t := range rows {
		found[t.webhookID] = append(found[t.webhookID], t.destinationID)
		if t.destinationID == "" {
			found[t.webhookID] = []string{}
		}
	}
	return found, err
}

type target struct{ webhookID, destinationID string }

func scanTarget(row db.Row) (t target, err error) { return t, row.Scan(&t.webhookID, &t.destinationID) }

var (
	receiptKinds  = []string{"text", "text", "text", "bigint", "text", "text", "text", "text", "bigint", "text", "bytea"}
	deliveryKinds = []string{"text", "text", "text", "text", "text", "bigint", "text", "bigint", "bigint", "bigint"}

	insertReceipts = insertFrom("webhook_receipts",
		"org_id, webhook_id, id, date, method, query, remote_addr, content_type, size, headers, body")
	insertDeliveries = insertFrom("webhook_deliveries",
		"org_id, webhook_id, id, destination_id, receipt_id, date, status, retries, queue, due_at")
)

// insertFrom is the text before the values of a bulk insert.
func insertFrom(table, columns string) string {
	var from []string
	for i := range strings.Split(columns, ",") {
		from = append(from, fmt.Sprintf("v.column%d", i+1))
	}
	return "INSERT INTO " + table + " (" + columns + ") SELECT " + strings.Join(from, ", ") + " FROM "
}

func addDelivery(b *bulk, d Delivery) {
	b.add(d.orgID, d.WebhookID, d.ID, d.DestinationID, d.ReceiptID, int64(d.Date), string(d.Status), int64(d.Retries), int64(d.queue),
		int64(d.due))
}

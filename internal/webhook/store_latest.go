package webhook

import (
	"fmt"
	"unicode/utf8"

	"steward/internal/db"
)

// DeliveryStates counts a receipt's destinations by the outcome of their last ended attempt.
type DeliveryStates struct {
	_ struct{} `goName:"WebhookDeliveryStates"`

	Succeeded int64 `json:"succeeded" doc:"Destinations whose last attempt succeeded" example:"2"`
	Failing   int64 `json:"failing" doc:"Destinations whose last attempt failed, also while the next one waits" example:"0"`
	Pending   int64 `json:"pending" doc:"Destinations for which no attempt has ended yet" example:"1"`
	Filtered  int64 `json:"filtered" doc:"Destinations whose filter did not match" example:"0"`
}

// statesOf counts receipts' states. CROSS JOIN keeps SQLite from reading all deliveries first.
const statesOf = `SELECT of.receipt_id, SUM(of.ended - of.failing), SUM(of.failing), SUM(1 - of.ended) FROM (
		SELECT d.receipt_id, MAX(CASE WHEN d.failing THEN 1 ELSE 0 END) AS failing, MAX(CASE WHEN d.status <> 'pending' THEN 1 ELSE 0 END) AS ended
		FROM {v} CROSS JOIN webhook_deliveries d WHERE d.receipt_id = v.value GROUP BY d.receipt_id, d.destination_id
	) of GROUP BY of.receipt_id`

// addStates adds delivery states to a page's receipts.
func addStates(q db.Querier, page []Receipt) error {
	var receipts db.Bulk[string]
	for _, r := range page {
		receipts = append(receipts, r.ID)
	}
	states := map[string]DeliveryStates{}
	_, err := db.CollectBulk(q, receipts, func(row db.Row) (receiptID string, err error) {
		var s DeliveryStates
		err = row.Scan(&receiptID, &s.Succeeded, &s.Failing, &s.Pending)
		states[receiptID] = s
		return receiptID, err
	}, statesOf)
	if err != nil {
		return fmt.Errorf("count deliveries of receipts: %w", err)
	}
	if err := addFiltered(q, page, states); err != nil {
		return err
	}
	for i, r := range page {
		s := states[r.ID]
		page[i].Deliveries = &s
	}
	return nil
}

// DeliveredReceipt is a receipt's summary in lists of deliveries.
type DeliveredReceipt struct {
	_ struct{} `goName:"WebhookDeliveredReceipt"`

	ContentType string `json:"content_type" example:"application/json"`
	Size        int64  `json:"size" doc:"Bytes of the body" example:"31"`
	Preview     string `json:"preview" doc:"The first 256 bytes of the body; empty if it is not text" example:"{\"order\":1042,\"state\":\"paid\"}"`
}

// receiptsOf reads the start of each receipt's body.
const receiptsOf = `SELECT r.key, r.content_type, r.size, substr(r.body, 1, 256)
	FROM {v} CROSS JOIN webhook_receipts r WHERE r.key = v.value`

// addReceipts adds receipts to a page's deliveries. A receipt that we no longer keep stays nil.
func addReceipts(q db.Querier, webhookID string, page []Delivery) error {
	var keys db.Bulk[string]
	receipts := map[string]*DeliveredReceipt{}
	for _, d := range page {
		key := rowKey(webhookID, d.ReceiptID)
		if _, known := receipts[key]; !known {
			receipts[key] = nil
			keys = append(keys, key)
		}
	}
	_, err := db.CollectBulk(q, keys, func(row db.Row) (key string, err error) {
		var r DeliveredReceipt
		var head []byte
		err = row.Scan(&key, &r.ContentType, &r.Size, &head)
		r.Preview = textOfHead(head, r.Size)
		receipts[key] = &r
		return key, err
	}, receiptsOf)
	if err != nil {
		return fmt.Errorf("read receipts of deliveries: %w", err)
	}
	for i, d := range page {
		page[i].Receipt = receipts[rowKey(webhookID, d.ReceiptID)]
	}
	return nil
}

// textOfHead returns a body's head as text, or "" if it is not text. size is the whole body's. If the
// head is shorter, the cut may have split its last character, which we then drop.
func textOfHead(head []byte, size int64) string {
	if int64(len(head)) < size {
		for range utf8.UTFMax - 1 {
			if r, n := utf8.DecodeLastRune(head); r == utf8.RuneError && n == 1 {
				head = head[:len(head)-1]
			}
		}
	}
	if !utf8.Valid(head) {
		return ""
	}
	return string(head)
}

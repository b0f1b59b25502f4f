package webhook

import (
	"errors"
	"strings"

	"github.com/oklog/ulid/v2"

	"steward/internal/id"
	"steward/internal/stamp"
)

// Receipts, deliveries and rows of the queue have one text as their key: the ULID of the webhook,
// then their own. One comparison finds a row, and what a webhook has of a table is a range of keys
// in the order of time.

// rowKey returns the key of a receipt or a delivery.
func rowKey(webhookID, rowID string) string { return bare(webhookID) + bare(rowID) }

// bare returns an id without its prefix.
func bare(withPrefix string) string { return withPrefix[strings.IndexByte(withPrefix, '_')+1:] }

var errKey = errors.New("webhook: malformed row key")

// splitKey returns the ids that a key is made of: the webhook's, and that of a receipt or a delivery.
func splitKey(key, kind string) (webhookID, rowID string, err error) {
	if len(key) != 2*ulid.EncodedSize {
		return "", "", errKey
	}
	return id.Webhook + "_" + key[:ulid.EncodedSize], kind + "_" + key[ulid.EncodedSize:], nil
}

// The ids of rows in SQL.
const (
	receiptIDColumn  = `'` + id.Receipt + `_' || substr(key, 27)`
	deliveryIDColumn = `'` + id.Delivery + `_' || substr(key, 27)`
	queueReceiptID   = `'` + id.Receipt + `_' || substr(receipt_key, 27)`
)

// keyRange are the keys from one on, and before another.
type keyRange struct{ from, to string }

// afterAll sorts after every id: `{` follows `z`.
const afterAll = "{"

// keysOf returns the keys that rows of a webhook can have in a time: since is inclusive, until is not.
func keysOf(webhookID string, since, until *stamp.Time) keyRange {
	hook := bare(webhookID)
	k := keyRange{hook, hook + afterAll}
	if since != nil {
		k.from = hook + firstULID(*since)
	}
	if until != nil {
		k.to = hook + firstULID(*until)
	}
	return k
}

// firstULID returns the least ULID of a time. ULIDs count milliseconds, so a fraction of one is
// rounded up.
func firstULID(at stamp.Time) string {
	var u ulid.ULID
	if ms := (int64(at) + 999) / 1000; ms > 0 {
		_ = u.SetTime(min(uint64(ms), ulid.MaxTime())) // fails beyond MaxTime only
	}
	return strings.ToLower(u.String())
}

// ReceiptKeys returns the range of keys of a webhook's receipts in a time: first is inclusive, end
// is not.
func ReceiptKeys(webhookID string, since, until stamp.Time) (first, end string) {
	keys := keysOf(webhookID, &since, &until)
	return keys.from, keys.to
}

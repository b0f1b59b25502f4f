package webhook

import (
	"errors"
	"strings"

	"github.com/oklog/ulid/v2"

	"steward/internal/id"
	"steward/internal/stamp"
)

// Receipts, deliveries and rows in the queue share one form of key: the webhook's ULID, then their
// own. One comparison finds a row, and a webhook's rows in a table are one range, ordered by time.

// rowKey returns a receipt's or delivery's key.
func rowKey(webhookID, rowID string) string { return bare(webhookID) + bare(rowID) }

// bare returns an id without its prefix.
func bare(withPrefix string) string { return withPrefix[strings.IndexByte(withPrefix, '_')+1:] }

var errKey = errors.New("webhook: malformed row key")

// splitKey returns the two ids in a key: the webhook's, and the receipt's or delivery's.
func splitKey(key, kind string) (webhookID, rowID string, err error) {
	if len(key) != 2*ulid.EncodedSize {
		return "", "", errKey
	}
	return id.Webhook + "_" + key[:ulid.EncodedSize], kind + "_" + key[ulid.EncodedSize:], nil
}

// SQL expressions for rows' ids.
const (
	receiptIDColumn  = `'` + id.Receipt + `_' || substr(key, 27)`
	deliveryIDColumn = `'` + id.Delivery + `_' || substr(key, 27)`
	queueReceiptID   = `'` + id.Receipt + `_' || substr(receipt_key, 27)`
)

// keyRange is half-open: it includes from and excludes to.
type keyRange struct{ from, to string }

// afterAll sorts after every id, because `{` follows `z`.
const afterAll = "{"

// keysOf returns the range of keys for a webhook's rows in a period: since is inclusive, until is not.
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

// firstULID returns the smallest ULID for a time. ULIDs count milliseconds, so it rounds up.
func firstULID(at stamp.Time) string {
	var u ulid.ULID
	if ms := (int64(at) + 999) / 1000; ms > 0 {
		_ = u.SetTime(min(uint64(ms), ulid.MaxTime())) // fails only beyond MaxTime
	}
	return strings.ToLower(u.String())
}

// ReceiptKeys returns the range of keys for a webhook's receipts in a period. It includes first and
// excludes end.
func ReceiptKeys(webhookID string, since, until stamp.Time) (first, end string) {
	keys := keysOf(webhookID, &since, &until)
	return keys.from, keys.to
}

package webhook

import (
	"strings"

	"github.com/oklog/ulid/v2"

	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/stamp"
)

// A receipt, a delivery and its row in the queue are found by one text: the ULID of the webhook, and then their own. One comparison finds
// a row, and all that a webhook has of one table is a range, in the order of time.

// rowKey gives the key of a receipt or a delivery.
func rowKey(webhookID, rowID string) string { return bare(webhookID) + bare(rowID) }

// bare gives an id without its prefix.
func bare(withPrefix string) string { return withPrefix[strings.IndexByte(withPrefix, '_')+1:] }

// idsOf gives what is in a key: the id of the webhook, and that of a receipt or a delivery.
func idsOf(key, kind string) (webhookID, rowID string) {
	return id.Webhook + "_" + key[:ulid.EncodedSize], kind + "_" + key[ulid.EncodedSize:]
}

// The latter in SQL.
const (
	idOfReceipt  = `'` + id.Receipt + `_' || substr(key, 27)`
	idOfDelivery = `'` + id.Delivery + `_' || substr(key, 27)`
)

// keys are those from one on, and before another.
type keys struct{ from, to string }

// keysOf gives the keys that a webhook's rows of a time can have: since is inclusive, until is not.
func keysOf(webhookID string, since, until *stamp.Time) keys {
	hook := bare(webhookID)
	k := keys{hook, hook + afterAll}
	if since != nil {
		k.from = hook + firstULID(*since)
	}
	if until != nil {
		k.to = hook + firstULID(*until)
	}
	return k
}

// pageKeys gives the keys of a page of a filtered list of a webhook, which a cursor may bound. Errors are those of resume.
func pageKeys(p *page.Paging, kind, webhookID string, f Filter) (keys, error) {
	k, before := keysOf(webhookID, f.Since, f.Until), afterAll
	err := resume(p, kind, &before)
	k.to = min(k.to, rowKey(webhookID, before))
	return k, err
}

// firstULID is the least one of a time; they have milliseconds, so a part of one counts as the next.
func firstULID(at stamp.Time) string {
	var u ulid.ULID
	if ms := (int64(at) + 999) / 1000; ms > 0 {
		_ = u.SetTime(min(uint64(ms), ulid.MaxTime())) // fails beyond MaxTime only
	}
	return strings.ToLower(u.String())
}

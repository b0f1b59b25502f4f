package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/stamp"
	"steward/internal/webhook/send"
)

// A webhook's repeated requests are recognized by a key: a hash of a header, of a value in the body or of
// the body. Ingest makes the key of a verified request from the settings in its cache. The transaction
// that accepts the request does the rest:
//
//  1. It inserts a row in webhook_dedupe with the new receipt's key, or locks the row that exists. One
//     statement does so for the whole batch, in the order of the keys, so that replicas do not deadlock.
//     It returns the row's receipt. A row that another replica inserts meanwhile is waited for.
//  2. It looks which of the other receipts are still kept. That is another statement, which sees what
//     was committed while the first one waited.
//  3. Rows that have expired, or whose receipt is gone, get the new receipt.
//
// All other requests are duplicates: they get the id of the row's receipt, and nothing is stored. The
// statements 2 and 3 run only if there was a row, and none does for a request without a key.

const (
	dedupeTable = "webhook_dedupe"
	// schemaOfDedupe is the migration that added deduplication.
	schemaOfDedupe = 50

	// maxDedupeFor is the longest time in seconds in which a request counts as repeated.
	maxDedupeFor = 24 * 60 * 60
	// maxDedupePath and maxDedupeLevels bound a path into the body.
	maxDedupePath   = 256
	maxDedupeLevels = 16
)

// Dedupe is how a webhook's repeated requests are recognized.
type Dedupe struct {
	_ struct{} `goName:"WebhookDedupe"`

	By     string `json:"by" nullable:"false" enum:"header,path,body" doc:"What requests have in common if they are the same event: the value of a header, the value at a path in a JSON body, or the whole body. A request without that value is new" example:"header"`
	Header string `json:"header,omitempty" nullable:"false" maxLength:"128" doc:"For header: its name" example:"x-event-id"`
	Path   string `json:"path,omitempty" nullable:"false" maxLength:"256" doc:"For path: names and indexes that lead to a text, number or boolean" example:"$.data.items[0].id"`
	Window int64  `json:"window_seconds,omitempty" nullable:"false" minimum:"1" maximum:"86400" doc:"For how long after the first request others are repeated (default 86400)" example:"3600"`
}

// Check adds the faults in the settings.
func (d Dedupe) Check(faults *errs.Faults) {
	const at = "body.dedupe"
	known := slices.Contains([]string{"header", "path", "body"}, d.By)
	faults.Check(known, at+".by", "expected header, path or body")
	faults.Check(!known || (d.By == "header") == (d.Header != ""), at+".header", "expected a name with by header, and none otherwise")
	faults.Check(!known || (d.By == "path") == (d.Path != ""), at+".path", "expected a path with by path, and none otherwise")
	faults.Check(d.Header == "" || len(d.Header) <= 128 && send.IsName(d.Header), at+".header", "expected the name of a header")
	if d.Path != "" {
		_, err := parsePath(d.Path)
		faults.Check(err == nil, at+".path", "expected names and indexes such as $.data.items[0].id, at most %d bytes and %d levels",
			maxDedupePath, maxDedupeLevels)
	}
	faults.Check(d.Window >= 0 && d.Window <= maxDedupeFor, at+".window_seconds", "expected 1 to %d", maxDedupeFor)
}

// complete returns the settings with their default.
func (d *Dedupe) complete() *Dedupe {
	if d == nil {
		return nil
	}
	c := *d
	c.Window = cmp.Or(c.Window, maxDedupeFor)
	return &c
}

// step is a name in an object or, if name is nil, an index into an array.
type step struct {
	name  *string
	index int
}

var errPath = errors.New("webhook: malformed path")

// parsePath parses a path such as $.data.items[0].id, with or without the leading $.
func parsePath(text string) (path []step, err error) {
	if len(text) > maxDedupePath {
		return nil, errPath
	}
	rest, isRooted := strings.CutPrefix(text, "$")
	if !isRooted && !strings.HasPrefix(rest, "[") {
		rest = "." + rest
	}
	for rest != "" {
		end := 1 + strings.IndexAny(rest[1:], ".[")
		if end == 0 {
			end = len(rest)
		}
		part := rest[:end]
		rest = rest[end:]
		if name, isName := strings.CutPrefix(part, "."); isName {
			if name == "" || strings.ContainsAny(name, "]*'\"$") {
				return nil, errPath
			}
			path = append(path, step{name: &name})
			continue
		}
		index, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(part, "["), "]"), 10, 31)
		if err != nil || part[0] != '[' || !strings.HasSuffix(part, "]") {
			return nil, errPath
		}
		path = append(path, step{index: int(index)})
	}
	if len(path) == 0 || len(path) > maxDedupeLevels {
		return nil, errPath
	}
	return path, nil
}

// valueAt returns the text, number or boolean at a path in a JSON text, as JSON, or "". Where a name is
// there twice, the last one counts. It reads the whole text, and keeps nothing of it but the value.
func valueAt(text []byte, path []step) string {
	in := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true))
	value, err := find(in, path)
	if err != nil {
		return ""
	}
	if _, err := in.ReadToken(); !errors.Is(err, io.EOF) {
		return ""
	}
	return value
}

// find reads the next value, and returns what is at a path in it.
func find(in *jsontext.Decoder, path []step) (found string, err error) {
	kind := in.PeekKind()
	if len(path) == 0 {
		if kind == '{' || kind == '[' || kind == 'n' {
			return "", in.SkipValue()
		}
		token, err := in.ReadToken()
		if err != nil {
			return "", err
		}
		return string(kind) + token.String(), nil
	}
	isObject := kind == '{'
	if !isObject && kind != '[' || isObject != (path[0].name != nil) {
		return "", in.SkipValue()
	}
	if _, err := in.ReadToken(); err != nil {
		return "", err
	}
	for i := 0; in.PeekKind() != '}' && in.PeekKind() != ']'; i++ {
		isNext := i == path[0].index
		if isObject {
			name, err := in.ReadToken()
			if err != nil {
				return "", err
			}
			isNext = name.String() == *path[0].name
		}
		if !isNext {
			if err := in.SkipValue(); err != nil {
				return "", err
			}
			continue
		}
		if found, err = find(in, path[1:]); err != nil {
			return "", err
		}
	}
	_, err = in.ReadToken()
	return found, err
}

// deduper makes the keys of a webhook's requests.
type deduper struct {
	settings Dedupe
	path     []step
	window   time.Duration
}

// newDeduper returns the deduper for stored settings, or nil if there are none.
func newDeduper(text *string) (*deduper, error) {
	settings, err := dedupeOf(text)
	if settings == nil || err != nil {
		return nil, err
	}
	d := &deduper{settings: *settings, window: time.Duration(settings.Window) * time.Second}
	if settings.Path != "" {
		if d.path, err = parsePath(settings.Path); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// dedupeOf decodes stored settings.
func dedupeOf(text *string) (*Dedupe, error) {
	if text == nil {
		return nil, nil
	}
	var d Dedupe
	if err := json.Unmarshal([]byte(*text), &d); err != nil {
		return nil, fmt.Errorf("decode dedupe: %w", err)
	}
	return &d, nil
}

// key returns a receipt's key in webhook_dedupe, or "" if it has none. The settings are part of it:
// after a change, nothing is a repetition of what came before.
func (d *deduper) key(r *Receipt, headers []send.Field) string {
	var value string
	switch d.settings.By {
	case "header":
		value = send.Value(headers, strings.ToLower(d.settings.Header))
	case "path":
		value = valueAt(r.body, d.path)
	default:
		value = "body" + string(r.body)
	}
	if value == "" {
		return ""
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s %s%s\x00", d.settings.By, strings.ToLower(d.settings.Header), d.settings.Path)
	io.WriteString(hash, value)
	return bare(r.WebhookID) + base64.RawURLEncoding.EncodeToString(hash.Sum(nil))
}

// dedupeRow is a row in webhook_dedupe.
type dedupeRow struct {
	Key, ReceiptKey string
	ExpiresAt       stamp.Time
}

// dedupe claims the keys of arrivals, which have an id by now, and marks those that are duplicates.
func dedupe(tx *db.Tx, batch []*arrival, now time.Time) error {
	var rows db.Bulk[dedupeRow]
	byKey := map[string]*arrival{} // the first arrival with each key
	for _, a := range batch {
		if a.dedupeKey != "" && byKey[a.dedupeKey] == nil {
			byKey[a.dedupeKey] = a
			rows = append(rows, dedupeRow{Key: a.dedupeKey, ReceiptKey: a.receipt.key(), ExpiresAt: stamp.Of(now.Add(a.dedupeFor))})
		}
	}
	slices.SortFunc(rows, func(a, b dedupeRow) int { return strings.Compare(a.Key, b.Key) })
	claimed, err := db.CollectBulk(tx, rows, func(row db.Row) (r dedupeRow, err error) {
		return r, row.Scan(&r.Key, &r.ReceiptKey, &r.ExpiresAt)
	}, `INSERT INTO webhook_dedupe (key, receipt_key, expires_at) SELECT v.key, v.receipt_key, v.expires_at FROM {v} WHERE true
		ON CONFLICT (key) DO UPDATE SET receipt_key = webhook_dedupe.receipt_key RETURNING key, receipt_key, expires_at`)
	if err != nil {
		return fmt.Errorf("claim dedupe keys: %w", err)
	}
	earlier := slices.DeleteFunc(claimed, func(r dedupeRow) bool { return r.ReceiptKey == byKey[r.Key].receipt.key() })
	kept, err := keptReceipts(tx, earlier)
	if err != nil {
		return err
	}
	var replaced db.Bulk[dedupeRow]
	for _, r := range earlier {
		first := byKey[r.Key]
		if kept[r.ReceiptKey] && r.ExpiresAt > stamp.Of(now) {
			first.repeats(r.ReceiptKey)
			continue
		}
		r.ReceiptKey = first.receipt.key()
		r.ExpiresAt = stamp.Of(now.Add(first.dedupeFor))
		replaced = append(replaced, r)
	}
	if err := replaced.Send(tx, `UPDATE webhook_dedupe SET receipt_key = v.receipt_key, expires_at = v.expires_at {FROM v} WHERE key = v.key`); err != nil {
		return fmt.Errorf("replace dedupe keys: %w", err)
	}
	for _, a := range batch {
		if first := byKey[a.dedupeKey]; first != nil && first != a {
			a.repeats(first.receipt.key())
		}
	}
	return nil
}

// keptReceipts returns which of the rows' receipts exist.
func keptReceipts(tx *db.Tx, rows []dedupeRow) (kept map[string]bool, err error) {
	var keys db.Bulk[string]
	for _, r := range rows {
		keys = append(keys, r.ReceiptKey)
	}
	found, err := db.CollectBulk(tx, keys, db.Value[string], `SELECT key FROM webhook_receipts WHERE key {IN v}`)
	if err != nil {
		return nil, fmt.Errorf("find first receipts: %w", err)
	}
	kept = make(map[string]bool, len(found))
	for _, key := range found {
		kept[key] = true
	}
	return kept, nil
}

// repeats marks an arrival as a duplicate of a stored receipt.
func (a *arrival) repeats(receiptKey string) {
	a.isDuplicate = true
	a.receipt.ID = id.Receipt + "_" + receiptKey[len(receiptKey)/2:]
}

// dedupeColumn returns the settings to store. It returns Conflict while a process of an earlier version
// lives, which would accept repeated requests.
func (s *Store) dedupeColumn(tx *db.Tx, d *Dedupe) (*string, error) {
	if d == nil {
		return nil, nil
	}
	if err := db.RequireSchema(tx, s.Now(), schemaOfDedupe, "dedupe"); err != nil {
		return nil, err
	}
	text, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode dedupe: %w", err)
	}
	return new(string(text)), nil
}

// updateDedupe changes how a webhook's repeated requests are recognized; nil ends it.
func (s *Store) updateDedupe(tx *db.Tx, w *Webhook, d *Dedupe) error {
	w.Dedupe = d.complete()
	column, err := s.dedupeColumn(tx, w.Dedupe)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(`UPDATE webhooks SET dedupe = $3 WHERE org_id = $1 AND id = $2`, w.orgID, w.ID, column); err != nil {
		return fmt.Errorf("update dedupe: %w", err)
	}
	return tx.Invalidate(tokensChanged)
}

// sweepDedupe removes expired keys.
func (r *Retention) sweepDedupe(ctx context.Context) error {
	const expired = `SELECT key FROM webhook_dedupe WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2`
	now := stamp.Of(r.Store.Now())
	for range sweepRounds {
		first, err := db.Collect(r.Store.DB.Read(ctx), db.Value[string], expired, now, 1)
		if err != nil {
			return fmt.Errorf("find expired keys: %w", err)
		}
		if len(first) == 0 {
			return nil
		}
		n, err := r.Store.DB.Exec(ctx, `DELETE FROM webhook_dedupe WHERE key IN (`+expired+db.SkipLocked(r.Store.DB.Dialect())+`)
			AND expires_at <= $1`, now, sweepRows)
		if err != nil {
			return fmt.Errorf("delete expired keys: %w", err)
		}
		if n == 0 {
			return nil
		}
	}
	r.more = true
	return nil
}

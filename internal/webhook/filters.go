package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/idempotency"
	"steward/internal/webhook/filter"
)

// A destination's filter is part of its config, and repeated in a column that ingest reads. Where the
// column is null, there is none: a key `filter` in config is then from a version without filters.
//
// Ingest evaluates the filters before the transaction, so that large bodies do not hold up other writes. The
// transaction reads the filters that are in effect, by which it decides. It evaluates those that have just
// changed, unless the body is large: then Ingest has to do it again.

const (
	// largeFiltering is the number of bytes, for all filters together, above which organizations take turns.
	largeFiltering = 256 << 10
	// filterWait is how long a request waits for its turn.
	filterWait = 30 * time.Second
	// largeBody is the largest body in bytes that the transaction filters.
	largeBody = 16 << 10
	// maxKnown is how many bytes of filters we keep with a webhook's token, so that small events need not
	// read them.
	maxKnown = 2 << 10
	// maxCompiled bounds the compiled filters in memory.
	maxCompiled = 1000
)

// errUndecided is the error for a large receipt with a filter that was not evaluated before the transaction.
var errUndecided = errors.New("webhook: a filter has changed")

// schemaOfFilter is the migration that added filters.
const schemaOfFilter = 48

const filteredTable = "webhook_filtered"

// filteredRow is a row in webhook_filtered.
type filteredRow struct {
	Key          string // of the receipt
	Destinations int
}

// eventOf returns what filters see of a receipt with these headers.
func eventOf(r *Receipt, headers string) filter.Event {
	return filter.Event{Method: r.Method, Query: r.Query, Headers: headers, Body: r.body}
}

// filterColumn returns the filter of a checked config. It returns Conflict while a process of an earlier
// version lives, which would forward everything.
func (s *Store) filterColumn(tx *db.Tx, c Config) (*string, error) {
	if c.filter == nil {
		return nil, nil
	}
	if err := db.RequireSchema(tx, s.Now(), schemaOfFilter, "filter"); err != nil {
		return nil, err
	}
	text := string(c.filter)
	return &text, nil
}

// saveFilter writes the filter of a destination's new config.
func (s *Store) saveFilter(tx *db.Tx, d *Destination) error {
	text, err := s.filterColumn(tx, d.Config)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(`UPDATE webhook_destinations SET filter = $4 WHERE org_id = $1 AND webhook_id = $2 AND id = $3`,
		d.orgID, d.WebhookID, d.ID, text); err != nil {
		return fmt.Errorf("update filter: %w", err)
	}
	d.Ignored = nil
	return nil
}

// filtersOf returns the filters of a webhook's destinations.
func (s *Store) filtersOf(ctx context.Context, hook hookKey) ([]string, error) {
	filters, err := db.Collect(s.DB.Read(ctx), db.Value[string], `SELECT DISTINCT filter FROM webhook_destinations
		WHERE org_id = $1 AND webhook_id = $2 AND filter IS NOT NULL AND NOT disabled`, hook.orgID, hook.webhookID)
	if err != nil {
		return nil, fmt.Errorf("read filters: %w", err)
	}
	return filters, nil
}

// decide evaluates a filter for a receipt that is not stored yet.
func (s *Store) decide(a *arrival, text string) {
	if _, decided := a.decided[text]; decided {
		return
	}
	if a.decided == nil {
		a.decided = map[string]bool{}
	}
	a.decided[text] = s.matches(text, &a.event)
}

// isUndecided reports whether a receipt is too large to evaluate a filter that was not evaluated before.
func (a *arrival) isUndecided(destinations []receiver) bool {
	return len(a.receipt.body) > largeBody && slices.ContainsFunc(destinations, func(to receiver) bool {
		if to.filter == nil {
			return false
		}
		_, decided := a.decided[*to.filter]
		return !decided
	})
}

// wants reports whether a receipt goes to a destination with a filter.
func (s *Store) wants(text string, a *arrival) bool {
	if matches, decided := a.decided[text]; decided {
		return matches
	}
	return s.matches(text, &a.event)
}

// matches evaluates a stored filter. One that we do not understand, from a later version, matches:
// delivering too much is better than losing something.
func (s *Store) matches(text string, e *filter.Event) bool {
	f, err := s.filters.Get(text, func() (*filter.Filter, error) { return filter.Compile([]byte(text), "filter") })
	if err != nil {
		s.Log.Error("a filter cannot be read; everything is delivered", "error", err)
		return true
	}
	return f.Match(e)
}

// addFiltered adds to receipts' states how many destinations' filters did not match.
func addFiltered(q db.Querier, page []Receipt, states map[string]DeliveryStates) error {
	var keys db.Bulk[string]
	for _, r := range page {
		keys = append(keys, rowKey(r.WebhookID, r.ID))
	}
	_, err := db.CollectBulk(q, keys, func(row db.Row) (key string, err error) {
		var n int64
		if err := row.Scan(&key, &n); err != nil {
			return "", err
		}
		receiptID := id.Receipt + "_" + key[len(key)/2:]
		s := states[receiptID]
		s.Filtered = n
		states[receiptID] = s
		return key, nil
	}, `SELECT f.key, f.destinations FROM {v} CROSS JOIN webhook_filtered f WHERE f.key = v.value`)
	if err != nil {
		return fmt.Errorf("count filtered deliveries: %w", err)
	}
	return nil
}

// FilterText is a filter as JSON.
type FilterText json.RawMessage

// UnmarshalJSON keeps the text.
func (t *FilterText) UnmarshalJSON(text []byte) error {
	*t = append((*t)[:0], text...)
	return nil
}

// Schema documents it as an object.
func (FilterText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: "object", AdditionalProperties: true, Examples: []any{map[string]any{"body": map[string]any{"type": "order.paid"}}}}
}

// FilterTest is the body of a request to test a filter.
type FilterTest struct {
	_ struct{} `goName:"WebhookFilterTest"`

	Filter FilterText `json:"filter" doc:"As in the config of a destination"`
}

// Check implements web.Checked.
func (t FilterTest) Check(faults *errs.Faults) {
	_, err := filter.Compile(t.Filter, "body.filter")
	faults.AddAll(err)
}

// FilterMatch says whether a filter matches a receipt.
type FilterMatch struct {
	_ struct{} `goName:"WebhookFilterMatch"`

	ReceiptID string `json:"receipt_id" example:"whrc_01jcq45k1n4q7t0w3z6c9f2h5k"`
	Matches   bool   `json:"matches"`
}

const (
	// maxTested and maxTestedBytes bound the receipts on which a filter is tested.
	maxTested      = 100
	maxTestedBytes = 16 << 20
)

// TestFilter handles POST /webhook/filter-test/{webhookId}. A filter could be used to guess at what it
// matches, so it sees headers as the caller does.
func (h *Handler) TestFilter(ctx context.Context, in *struct {
	Path
	Body FilterTest
},
) ([]FilterMatch, error) {
	caller := auth.From(ctx)
	f, err := filter.Compile(in.Body.Filter, "body.filter")
	if err != nil {
		return nil, err
	}
	if err := idempotency.Claim(ctx); err != nil {
		return nil, err
	}
	receiptIDs, err := h.Store.newestReceipts(ctx, caller.OrgID, in.ID)
	if err != nil {
		return nil, err
	}
	matches := make([]FilterMatch, 0, len(receiptIDs))
	for _, receiptID := range receiptIDs {
		r, err := h.Store.Receipt(ctx, caller.OrgID, in.ID, receiptID)
		if errs.KindOf(err) == errs.NotFound { // removed since
			continue
		}
		if err == nil && MasksCredentials(caller) {
			r, err = r.Masked()
		}
		if err != nil {
			return nil, err
		}
		event := eventOf(&r, r.headerText)
		matches = append(matches, FilterMatch{ReceiptID: receiptID, Matches: f.Match(&event)})
	}
	return matches, nil
}

// newestReceipts returns the ids of a webhook's newest receipts, as many as a filter is tested on, or
// NotFound.
func (s *Store) newestReceipts(ctx context.Context, orgID, webhookID string) (receiptIDs []string, err error) {
	q := s.DB.Read(ctx)
	if _, err := get(q, orgID, webhookID); err != nil {
		return nil, err
	}
	keys := keysOf(webhookID, nil, nil)
	left := int64(maxTestedBytes)
	_, err = db.Collect(q, func(row db.Row) (receiptID string, err error) {
		var size int64
		if err := row.Scan(&receiptID, &size); err != nil {
			return "", err
		}
		if left -= size; left >= 0 || len(receiptIDs) == 0 {
			receiptIDs = append(receiptIDs, receiptID)
		}
		return receiptID, nil
	}, `SELECT `+receiptIDColumn+`, size FROM webhook_receipts WHERE key >= $1 AND key < $2 ORDER BY key DESC LIMIT `+fmt.Sprint(maxTested),
		keys.from, keys.to)
	if err != nil {
		return nil, fmt.Errorf("list receipts: %w", err)
	}
	return receiptIDs, nil
}

package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"hash/crc32"
	"strings"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Store is all SQL of this package; the other store_*.go files are its parts: destinations, receipts and how they are accepted, deliveries
// and their queue, counters.
type Store struct {
	DB   *db.DB
	Ring *seal.Ring
	Now  func() time.Time
	// Audit writes who did it, in the same transaction.
	Audit func(tx *db.Tx, action, target string) error
	// Owner names this process in turns; Shard is the part of the counters that it writes.
	Owner string
	Shard int64

	// Lanes take new deliveries that this process can send at once; nil leaves all of them to be read.
	Lanes *Lanes

	arrivals db.Gather[*arrival]
	fanOuts  db.Recall[hookKey, []string] // the enabled destinations of a webhook
	crowds   page.CountCache[window]
}

// shards is how many parts the counters have for replicas: enough that a handful of them do not wait for each other, few enough to be
// summed quickly. Transactions of one process that run at the same time have parts of their own, too: the one would wait for the other's
// commit.
const shards = 8

// ShardOf gives the part of the counters that a process writes.
func ShardOf(owner string) int64 { return int64(crc32.ChecksumIEEE([]byte(owner)) % shards) }

// Accept and Finish run at the same time.
const (
	ofAccept = 0
	ofFinish = shards
)

// shard gives the part that a transaction writes. SQLite has one writer, and so one part.
func (s *Store) shard(of int64) int64 {
	if s.DB.Dialect() == db.SQLite {
		return 0
	}
	return s.Shard + of
}

// Epochs of the caches: ingest tokens, and destinations, in lanes and for new receipts.
const (
	tokensChanged       = "webhook.tokens"
	destinationsChanged = "webhook.destinations"
)

const webhookColumns = `id, created_at, updated_at, created_by, name, description, internal, metadata, retention_seconds, version, org_id`

func scanWebhook(row db.Row) (w Webhook, err error) {
	var metadata *string
	err = row.Scan(&w.ID, &w.CreatedAt, &w.UpdatedAt, &w.CreatedBy, &w.Name, &w.Description, &w.Internal, &metadata, &w.Retention,
		&w.version, &w.orgID)
	w.Metadata = rawOf(metadata)
	return w, err
}

func rawOf(text *string) json.RawMessage {
	if text == nil {
		return json.RawMessage("null")
	}
	return json.RawMessage(*text)
}

func textOf(raw json.RawMessage) *string {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	s := string(raw)
	return &s
}

// Create makes a webhook of the caller and gives its token, which is not kept.
func (s *Store) Create(ctx context.Context, caller *auth.Caller, w Webhook) (token string, err error) {
	w.orgID, w.CreatedBy = caller.OrgID, caller.UserID
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		token, err = s.insert(tx, w)
		return errors.Join(err, s.Audit(tx, "webhook.create", w.ID))
	})
	return token, err
}

// CreateInternalTx makes a system webhook with metadata inside the transaction of what it is for, and gives its id.
func (s *Store) CreateInternalTx(tx *db.Tx, orgID, userID, name string, metadata map[string]string) (string, error) {
	w, err := NewWebhook{Name: name, Internal: true, Metadata: metadata}.build(s.Now())
	if err != nil {
		return "", err
	}
	w.orgID, w.CreatedBy = orgID, userID
	_, err = s.insert(tx, w)
	return w.ID, err
}

func (s *Store) insert(tx *db.Tx, w Webhook) (token string, err error) {
	token = id.Secret(tokenSize)
	_, err = tx.Exec(`INSERT INTO webhooks (org_id, id, name, description, internal, metadata, token_hash, retention_seconds, created_by,
		created_at, updated_at, version) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		w.orgID, w.ID, w.Name, w.Description, w.Internal, textOf(w.Metadata), seal.Hash(token), w.Retention, w.CreatedBy, w.CreatedAt,
		w.UpdatedAt, w.version)
	return token, err
}

// Get gives a webhook of the organization, or NotFound.
func (s *Store) Get(ctx context.Context, orgID, webhookID string) (Webhook, error) {
	return get(s.DB.Read(ctx), orgID, webhookID)
}

func get(q db.Querier, orgID, webhookID string) (Webhook, error) {
	w, err := scanWebhook(q.Row(`SELECT `+webhookColumns+` FROM webhooks WHERE org_id = $1 AND id = $2`, orgID, webhookID))
	if errors.Is(err, db.ErrNoRows) {
		return Webhook{}, errs.Missing("webhook", webhookID)
	}
	return w, err
}

// afterAll sorts after every id, whatever its prefix: `{` follows `z`.
const afterAll = "{"

// List gives a page of an organization's webhooks, newest first.
func (s *Store) List(ctx context.Context, orgID string, p page.Paging) (page.Page[Webhook], error) {
	q := s.DB.Read(ctx)
	before := afterAll
	if err := resume(&p, id.Webhook, &before); err != nil {
		return page.Page[Webhook]{}, err
	}
	var total int64
	if err := q.Row(`SELECT count(*) FROM webhooks WHERE org_id = $1`, orgID).Scan(&total); err != nil {
		return page.Page[Webhook]{}, err
	}
	rows, err := db.Collect(q, scanWebhook, `SELECT `+webhookColumns+` FROM webhooks WHERE org_id = $1 AND id < $2
		ORDER BY id DESC LIMIT $3 OFFSET $4`, orgID, before, p.Limit+1, p.Offset)
	return page.New(rows, total, p, func(w Webhook) page.Cursor { return page.NewCursor(w.ID) }), err
}

// resume reads the id to go on from, if one was sent; offset does not count then. Invalid for the id of another kind of list.
func resume(p *page.Paging, kind string, before *string) error {
	if p.Cursor == "" {
		return nil
	}
	p.Offset = 0
	if err := p.Cursor.Scan(before); err != nil {
		return err
	}
	if !strings.HasPrefix(*before, kind+"_") {
		return errs.Wrong("query.cursor", "expected a cursor from the next link of this list")
	}
	return nil
}

// change loads a webhook for a user's change and refuses it if the condition fails or the system keeps it.
func change(tx *db.Tx, orgID, webhookID string, match page.IfMatch) (Webhook, error) {
	w, err := get(tx, orgID, webhookID)
	if err != nil {
		return w, err
	}
	return w, errors.Join(userChange(w.Internal, "webhook"), match.Check(w))
}

// Update changes a webhook. NotFound, Forbidden for an internal one, PreconditionFailed, Invalid.
func (s *Store) Update(ctx context.Context, orgID, webhookID string, p Patch, match page.IfMatch) (w Webhook, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if w, err = change(tx, orgID, webhookID, match); err != nil {
			return err
		}
		if w, err = p.apply(w, s.Now()); err != nil {
			return err
		}
		_, err := tx.Exec(`UPDATE webhooks SET name = $3, description = $4, retention_seconds = $5, updated_at = $6, version = $7
			WHERE org_id = $1 AND id = $2`, orgID, webhookID, w.Name, w.Description, w.Retention, w.UpdatedAt, w.version)
		return errors.Join(err, s.Audit(tx, "webhook.update", webhookID))
	})
	return w, err
}

// Rotate gives a webhook a new token; the old one is refused from then on. Errors are those of Update.
func (s *Store) Rotate(ctx context.Context, orgID, webhookID string, match page.IfMatch) (w Webhook, token string, err error) {
	token = id.Secret(tokenSize)
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if w, err = change(tx, orgID, webhookID, match); err != nil {
			return err
		}
		w.UpdatedAt, w.version = stamp.Of(s.Now()), w.version+1
		_, err := tx.Exec(`UPDATE webhooks SET token_hash = $3, updated_at = $4, version = $5 WHERE org_id = $1 AND id = $2`,
			orgID, webhookID, seal.Hash(token), w.UpdatedAt, w.version)
		return errors.Join(err, tx.Bump(tokensChanged), s.Audit(tx, "webhook.rotate-url", webhookID))
	})
	return w, token, err
}

// Delete removes a webhook with all that belongs to it. Errors are those of Update.
func (s *Store) Delete(ctx context.Context, orgID, webhookID string, match page.IfMatch) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		if _, err := change(tx, orgID, webhookID, match); err != nil {
			return err
		}
		return errors.Join(s.DeleteInternalTx(tx, orgID, webhookID), s.Audit(tx, "webhook.delete", webhookID))
	})
}

// DeleteInternalTx removes a webhook, internal or not, inside the transaction of what it was for.
func (s *Store) DeleteInternalTx(tx *db.Tx, orgID, webhookID string) error {
	if _, err := tx.Exec(`DELETE FROM webhooks WHERE org_id = $1 AND id = $2`, orgID, webhookID); err != nil {
		return err
	}
	if _, err := tx.Exec(`DELETE FROM webhook_destinations WHERE org_id = $1 AND webhook_id = $2`, orgID, webhookID); err != nil {
		return err
	}
	_, err := tx.Exec(`INSERT INTO webhook_graves (org_id, webhook_id, deleted_at) VALUES ($1, $2, $3)
		ON CONFLICT (org_id, webhook_id) DO NOTHING`, orgID, webhookID, stamp.Of(s.Now()))
	return errors.Join(err, tx.Bump(tokensChanged), tx.Bump(destinationsChanged))
}

// token gives the organization and the token's hash of a webhook, or ErrNoRows.
func (s *Store) token(ctx context.Context, webhookID string) (orgID string, hash []byte, err error) {
	err = s.DB.Read(ctx).Row(`SELECT org_id, token_hash FROM webhooks WHERE id = $1`, webhookID).Scan(&orgID, &hash)
	return orgID, hash, err
}

package webhook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/budget"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/list"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
	"steward/internal/webhook/filter"
	"steward/internal/webhook/queue"
)

// Store has this package's SQL. The other store_*.go files add to it: destinations, accepting
// receipts, lists, and finishing deliveries.
type Store struct {
	DB   *db.DB
	Ring *seal.Ring
	Now  func() time.Time
	Log  *slog.Logger
	// Audit records who did something, in the same transaction.
	Audit *audit.Store
	// Queue has the pending deliveries.
	Queue *queue.Store
	// Walks has the turns of searches and exports.
	Walks *budget.Queue
	// Logged, if not nil, is called after a transaction has committed events of these organizations.
	Logged func(orgIDs []string)
	// Replayed, if not nil, counts the first attempts of replays that have ended, in the same
	// transaction.
	Replayed func(tx *db.Tx, ended []ReplayResult) error

	arrivals   db.Gather[*arrival]
	rejections db.Gather[*rejection]
	// filters has compiled filters by their text.
	filters db.Cache[string, *filter.Filter]
	large   page.CountCache
}

// tokensChanged names the cache of ingest tokens.
const tokensChanged = "webhook.tokens"

const webhookColumns = `id, created_at, updated_at, created_by, name, description, internal, metadata, retention_seconds, version, org_id,
	verification, dedupe`

func scanWebhook(row db.Row) (w Webhook, err error) {
	var metadata, verification, dedupe *string
	if err := row.Scan(&w.ID, &w.CreatedAt, &w.UpdatedAt, &w.CreatedBy, &w.Name, &w.Description, &w.Internal, &metadata, &w.Retention,
		&w.version, &w.orgID, &verification, &dedupe); err != nil {
		return w, err
	}
	w.Metadata = rawOf(metadata)
	if w.Dedupe, err = dedupeOf(dedupe); err != nil {
		return w, err
	}
	w.Verification, err = shownVerification(verification)
	return w, err
}

func rawOf(text *string) json.RawMessage {
	if text == nil {
		return json.RawMessage("null")
	}
	return json.RawMessage(*text)
}

// textOf returns the text to store, or nil for null.
func textOf(raw json.RawMessage) *string {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	s := string(raw)
	return &s
}

// Create inserts the caller's webhook and returns the token in its ingest URL.
func (s *Store) Create(ctx context.Context, caller *auth.Caller, w Webhook) (token string, err error) {
	w.orgID = caller.OrgID
	w.CreatedBy = caller.Actor()
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if token, err = s.insert(tx, w); err != nil {
			return err
		}
		return s.Audit.Record(tx, "webhook.create", w.ID)
	})
	return token, err
}

// Creator is an organization and the user in it on whose behalf the system creates something.
type Creator struct{ OrgID, UserID string }

// CreateInternalTx inserts a system webhook with metadata and returns its id. It runs in the
// transaction that creates the webhook's owner.
func (s *Store) CreateInternalTx(tx *db.Tx, by Creator, name string, metadata map[string]string) (string, error) {
	w, err := NewWebhook{Name: name, Internal: true, Metadata: metadata}.build(s.Now())
	if err != nil {
		return "", err
	}
	w.orgID = by.OrgID
	w.CreatedBy = by.UserID
	_, err = s.insert(tx, w)
	return w.ID, err
}

func (s *Store) insert(tx *db.Tx, w Webhook) (token string, err error) {
	token = id.Secret(tokenSize)
	verification, err := s.verificationColumns(tx, w)
	if err != nil {
		return "", err
	}
	dedupe, err := s.dedupeColumn(tx, w.Dedupe)
	if err != nil {
		return "", err
	}
	if _, err := tx.Exec(`INSERT INTO webhooks (org_id, id, name, description, internal, metadata, token_hash, token, retention_seconds,
		created_by, created_at, updated_at, version, verification, verification_secrets, dedupe)
		VALUES (@org_id, @id, @name, @description, @internal, @metadata, @token_hash, @token, @retention_seconds,
		@created_by, @created_at, @updated_at, @version, @verification, @verification_secrets, @dedupe)`,
		db.Args{
			"org_id": w.orgID, "id": w.ID, "name": w.Name, "description": w.Description, "internal": w.Internal,
			"metadata": textOf(w.Metadata), "token_hash": seal.Hash(token),
			"token": s.Ring.Seal(tokenPurpose, []byte(token)), "retention_seconds": w.Retention,
			"created_by": w.CreatedBy, "created_at": w.CreatedAt, "updated_at": w.UpdatedAt, "version": w.version,
			"verification": verification.shown, "verification_secrets": verification.secrets, "dedupe": dedupe,
		}); err != nil {
		return "", fmt.Errorf("insert webhook: %w", err)
	}
	return token, nil
}

// Get returns the organization's webhook, or NotFound.
func (s *Store) Get(ctx context.Context, orgID, webhookID string) (Webhook, error) {
	return get(s.DB.Read(ctx), orgID, webhookID)
}

func get(q db.Querier, orgID, webhookID string) (Webhook, error) {
	return found(q.Row(`SELECT `+webhookColumns+` FROM webhooks WHERE org_id = $1 AND id = $2`, orgID, webhookID), webhookID)
}

// found returns a row's webhook, or NotFound.
func found(row db.Row, webhookID string) (Webhook, error) {
	w, err := scanWebhook(row)
	if errors.Is(err, db.ErrNoRows) {
		return Webhook{}, errs.Missing("webhook", webhookID)
	}
	if err != nil {
		return Webhook{}, fmt.Errorf("read webhook: %w", err)
	}
	return w, nil
}

// webhookList returns an organization's webhooks, newest first. If internal is not nil, it returns
// only those where internal has this value.
func webhookList(orgID string, internal *bool) list.Query[Webhook] {
	where := list.Where(`org_id = ?`, orgID)
	if internal != nil {
		where.Add(`internal = ?`, *internal)
	}
	return list.Query[Webhook]{
		Name: "webhooks", From: list.Text(`webhooks`), Where: where, Columns: webhookColumns, Scan: scanWebhook,
		Order: list.ByID(`id`, id.Webhook, func(w Webhook) string { return w.ID }),
	}
}

// List returns a page of webhookList.
func (s *Store) List(ctx context.Context, orgID string, internal *bool, p page.Paging) (page.Page[Webhook], error) {
	q := s.DB.Read(ctx)
	total, err := webhookList(orgID, internal).Count(q)
	if err != nil {
		return page.Page[Webhook]{}, err
	}
	return webhookList(orgID, internal).Page(q, p, total)
}

// forChange locks and returns a webhook that a user may change. It returns NotFound, Forbidden for an
// internal webhook, or PreconditionFailed.
func forChange(tx *db.Tx, orgID, webhookID string, match page.IfMatch) (Webhook, error) {
	w, err := found(tx.Row(`UPDATE webhooks SET version = version WHERE org_id = $1 AND id = $2 RETURNING `+webhookColumns,
		orgID, webhookID), webhookID)
	if err != nil {
		return w, err
	}
	if err := checkUserChange(w.Internal, "webhook"); err != nil {
		return w, err
	}
	return w, match.Check(w)
}

// Update changes a webhook. It returns Invalid, or an error from forChange.
func (s *Store) Update(ctx context.Context, orgID, webhookID string, p Patch, match page.IfMatch) (w Webhook, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if w, err = forChange(tx, orgID, webhookID, match); err != nil {
			return err
		}
		if w, err = p.apply(w, s.Now()); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE webhooks SET name = @name, description = @description, retention_seconds = @retention_seconds,
			updated_at = @updated_at, version = @version WHERE org_id = @org_id AND id = @id`,
			db.Args{
				"org_id": orgID, "id": webhookID, "name": w.Name, "description": w.Description, "retention_seconds": w.Retention,
				"updated_at": w.UpdatedAt, "version": w.version,
			}); err != nil {
			return fmt.Errorf("update webhook: %w", err)
		}
		if p.Verification.Sent {
			if err := s.updateVerification(tx, &w, p.Verification.Ptr()); err != nil {
				return err
			}
		}
		if p.Dedupe.Sent {
			if err := s.updateDedupe(tx, &w, p.Dedupe.Ptr()); err != nil {
				return err
			}
		}
		return s.Audit.Record(tx, "webhook.update", webhookID)
	})
	return w, err
}

// Rotate gives a webhook a new token, and we refuse the old one from then on. It returns errors from
// forChange.
func (s *Store) Rotate(ctx context.Context, orgID, webhookID string, match page.IfMatch) (w Webhook, token string, err error) {
	token = id.Secret(tokenSize)
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if w, err = forChange(tx, orgID, webhookID, match); err != nil {
			return err
		}
		w.UpdatedAt = stamp.Of(s.Now())
		w.version++
		if _, err := tx.Exec(`UPDATE webhooks SET token_hash = @token_hash, token = @token, updated_at = @updated_at, version = @version
			WHERE org_id = @org_id AND id = @id`,
			db.Args{
				"org_id": orgID, "id": webhookID, "token_hash": seal.Hash(token),
				"token": s.Ring.Seal(tokenPurpose, []byte(token)), "updated_at": w.UpdatedAt, "version": w.version,
			}); err != nil {
			return fmt.Errorf("update token: %w", err)
		}
		if err := tx.Invalidate(tokensChanged); err != nil {
			return err
		}
		return s.Audit.Record(tx, "webhook.rotate-url", webhookID)
	})
	return w, token, err
}

// Delete removes a webhook with everything in it. It returns errors from forChange.
func (s *Store) Delete(ctx context.Context, orgID, webhookID string, match page.IfMatch) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		if _, err := forChange(tx, orgID, webhookID, match); err != nil {
			return err
		}
		if err := s.DeleteInternalTx(tx, orgID, webhookID); err != nil {
			return err
		}
		return s.Audit.Record(tx, "webhook.delete", webhookID)
	})
}

// DeleteInternalTx removes a webhook, internal or not, in the transaction that removes its owner. Its
// receipts and deliveries are out of reach from then on; the tombstone tells Retention to remove them.
func (s *Store) DeleteInternalTx(tx *db.Tx, orgID, webhookID string) error {
	if _, err := tx.Exec(`DELETE FROM webhooks WHERE org_id = $1 AND id = $2`, orgID, webhookID); err != nil {
		return fmt.Errorf("delete webhook: %w", err)
	}
	if _, err := tx.Exec(`DELETE FROM webhook_destinations WHERE org_id = $1 AND webhook_id = $2`, orgID, webhookID); err != nil {
		return fmt.Errorf("delete destinations: %w", err)
	}
	if _, err := tx.Exec(`INSERT INTO webhook_tombstones (org_id, webhook_id, deleted_at) VALUES ($1, $2, $3)
		ON CONFLICT (org_id, webhook_id) DO NOTHING`, orgID, webhookID, stamp.Of(s.Now())); err != nil {
		return fmt.Errorf("insert tombstone: %w", err)
	}
	if err := tx.Invalidate(tokensChanged); err != nil {
		return err
	}
	return tx.Invalidate(destinationsChanged)
}

// tokenPurpose seals tokens.
const tokenPurpose = "webhook.token"

// Token returns the token in a webhook's URL. It returns NotFound if an earlier version created the
// webhook and stored only the token's hash, and Forbidden if the system manages the webhook.
func (s *Store) Token(ctx context.Context, orgID, webhookID string) (string, error) {
	q := s.DB.Read(ctx)
	w, err := get(q, orgID, webhookID)
	if err != nil {
		return "", err
	}
	if w.Internal {
		return "", errs.New(errs.Forbidden, "this webhook is managed by the system, and its URL is not shown")
	}
	var sealed, hash []byte
	if err := q.Row(`SELECT token, token_hash FROM webhooks WHERE org_id = $1 AND id = $2`, orgID, webhookID).Scan(&sealed, &hash); err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	var token []byte
	if len(sealed) > 0 {
		if token, err = s.Ring.Open(tokenPurpose, sealed); err != nil {
			return "", fmt.Errorf("open token: %w", err)
		}
	}
	if !bytes.Equal(seal.Hash(string(token)), hash) {
		return "", errs.New(errs.NotFound, "the URL of webhook %s was shown once, when an earlier version created it: rotate it to see it", webhookID)
	}
	return string(token), nil
}

// token returns what ingest needs to know of a webhook. It returns ErrNoRows if the webhook is gone or
// its organization was deleted.
func (s *Store) token(ctx context.Context, webhookID string) (t token, err error) {
	var hash []byte
	var verification verificationColumns
	var dedupe *string
	var filters int64
	if err := s.DB.Read(ctx).Row(`SELECT org_id, token_hash, verification, verification_secrets, dedupe, (SELECT count(*) FROM webhook_destinations d
		WHERE d.org_id = webhooks.org_id AND d.webhook_id = webhooks.id AND d.filter IS NOT NULL) FROM webhooks WHERE id = $1
		AND NOT EXISTS (SELECT 1 FROM deleted_orgs d WHERE d.org_id = webhooks.org_id)`, webhookID).Scan(
		&t.orgID, &hash, &verification.shown, &verification.secrets, &dedupe, &filters); err != nil {
		return t, err
	}
	t.hash = [sha256.Size]byte(hash)
	if t.hasFilters = filters > 0; t.hasFilters {
		if t.filters, err = s.filtersOf(ctx, hookKey{t.orgID, webhookID}); err != nil {
			return t, err
		}
		if len(strings.Join(t.filters, "")) > maxKnown {
			t.filters = nil
		}
	}
	if t.verifier, err = s.verifier(verification); err != nil {
		return t, err
	}
	t.deduper, err = newDeduper(dedupe)
	return t, err
}

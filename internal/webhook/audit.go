package webhook

import (
	"context"
	"encoding/json"
	"fmt"

	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/stamp"
)

// A webhook with events receives its organization's audit entries, as a bucket's webhook receives the
// bucket's events: in the transaction that writes the entry, and only while it has a destination. Unlike
// other system webhooks, those who may read the audit log create, change and delete it. Nobody gets its
// URL, so that all it has are entries. We know it by its metadata.

const (
	// AuditEvents is the value of events.
	AuditEvents   = "audit"
	auditMetadata = `{"type":"audit"}`
	// schemaOfAudit is the migration that such webhooks came with.
	schemaOfAudit = 54
	// maxAudit bounds an organization's such webhooks: each entry is stored once for each.
	maxAudit = 5
)

// isAudit reports whether the webhook receives audit entries.
func (w Webhook) isAudit() bool { return string(w.Metadata) == auditMetadata }

// checkReader returns Forbidden if the webhook receives audit entries, and the caller may not read them.
func (w Webhook) checkReader(ctx context.Context) error {
	if !w.isAudit() {
		return nil
	}
	return auth.From(ctx).Require(auth.ReadAudit)
}

// checkAudit returns an error if an organization cannot have another webhook for audit entries.
func (s *Store) checkAudit(tx *db.Tx, orgID string) error {
	if err := db.RequireSchema(tx, s.Now(), schemaOfAudit, "a webhook for audit entries"); err != nil {
		return err
	}
	ids, err := auditWebhooks(tx, orgID)
	if err == nil && len(ids) >= maxAudit {
		return errs.New(errs.Conflict, "an organization can have %d webhooks for audit entries", maxAudit)
	}
	return err
}

func auditWebhooks(q db.Querier, orgID string) ([]string, error) {
	ids, err := db.Collect(q, db.Value[string], `SELECT id FROM webhooks WHERE org_id = $1 AND metadata = '`+auditMetadata+`' ORDER BY id`, orgID)
	if err != nil {
		return nil, fmt.Errorf("list webhooks for audit entries: %w", err)
	}
	return ids, nil
}

// auditEvent is the body of a receipt about an audit entry.
type auditEvent struct {
	Type      string      `json:"type"`
	Timestamp stamp.Time  `json:"timestamp"`
	Data      audit.Entry `json:"data"`
}

// AcceptAuditTx stores an audit entry as a receipt of each webhook that its organization has for them, in
// the entry's transaction.
func (s *Store) AcceptAuditTx(tx *db.Tx, orgID string, e audit.Entry) error {
	ids, err := auditWebhooks(tx, orgID)
	if err != nil || len(ids) == 0 {
		return err
	}
	body, err := json.Marshal(auditEvent{Type: "audit." + e.Action, Timestamp: e.At, Data: e})
	if err != nil {
		return fmt.Errorf("encode audit entry: %w", err)
	}
	for _, webhookID := range ids {
		if err := s.AcceptEventsTx(tx, orgID, webhookID, [][]byte{body}); err != nil {
			return err
		}
	}
	return nil
}

package webhook

import (
	"context"
	"fmt"

	"steward/internal/db"
)

// RemoveOrg removes an organization's webhooks with everything in them, in small transactions, and
// reports whether nothing is left. Call it only long after the organization was deleted, when its
// webhooks can no longer accept requests.
func (r *Retention) RemoveOrg(ctx context.Context, orgID string) (done bool, err error) {
	webhookIDs, err := db.Collect(r.Store.DB.Read(ctx), db.Value[string], `SELECT id FROM webhooks WHERE org_id = $1`, orgID)
	if err != nil {
		return false, fmt.Errorf("list webhooks: %w", err)
	}
	for _, webhookID := range webhookIDs {
		if err := r.Store.DB.Write(ctx, func(tx *db.Tx) error {
			return r.Store.DeleteInternalTx(tx, orgID, webhookID)
		}); err != nil {
			return false, err
		}
	}
	for r.more = true; r.more; {
		r.more = false
		if err := r.sweepOrg(ctx, orgID); err != nil {
			return false, err
		}
	}
	left, err := r.tombstones(ctx, orgID)
	return len(left) == 0, err
}

// sweepOrg removes whatever an organization's deleted webhooks have left. No request can still be
// under way, so their tombstones can go at once.
func (r *Retention) sweepOrg(ctx context.Context, orgID string) error {
	deleted, err := r.tombstones(ctx, orgID)
	if err != nil {
		return err
	}
	for _, webhookID := range deleted {
		if err := r.sweepDeleted(ctx, swept{orgID: orgID, webhookID: webhookID}); err != nil {
			return err
		}
	}
	return nil
}

// tombstones returns an organization's deleted webhooks.
func (r *Retention) tombstones(ctx context.Context, orgID string) ([]string, error) {
	webhookIDs, err := db.Collect(r.Store.DB.Read(ctx), db.Value[string],
		`SELECT webhook_id FROM webhook_tombstones WHERE org_id = $1`, orgID)
	if err != nil {
		return nil, fmt.Errorf("list tombstones: %w", err)
	}
	return webhookIDs, nil
}

// Caches names the caches that depend on whether an organization is deleted.
func Caches() []string { return []string{tokensChanged} }

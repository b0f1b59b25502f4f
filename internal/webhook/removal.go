package webhook

import (
	"context"
	"fmt"

	"steward/internal/db"
)

// RemoveOrg removes the webhooks of an organization with all that they hold, in small transactions. It
// reports whether nothing is left. The organization must have been deleted long ago: its webhooks take
// nothing in.
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

// sweepOrg removes what the deleted webhooks of an organization have left. Their tombstones need not be
// kept for requests that began earlier.
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

// tombstones returns the deleted webhooks of an organization.
func (r *Retention) tombstones(ctx context.Context, orgID string) ([]string, error) {
	webhookIDs, err := db.Collect(r.Store.DB.Read(ctx), db.Value[string],
		`SELECT webhook_id FROM webhook_tombstones WHERE org_id = $1`, orgID)
	if err != nil {
		return nil, fmt.Errorf("list tombstones: %w", err)
	}
	return webhookIDs, nil
}

// Caches are the names of the caches that depend on whether an organization is deleted.
func Caches() []string { return []string{tokensChanged} }

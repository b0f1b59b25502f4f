package webhook

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/id"
)

var webhookNames = db.NameIndex{Table: "webhooks", ID: "id", Index: "webhooks_name"}

// Search finds the caller's webhooks by id or by words in their names.
func (s *Store) Search(ctx context.Context, caller *auth.Caller, text string, limit int) ([]db.Named, error) {
	return webhookNames.Find(s.DB.Read(ctx), caller.OrgID, text, limit)
}

// SearchDestinations finds a destination by its id. The result carries the webhook's name.
func (s *Store) SearchDestinations(ctx context.Context, caller *auth.Caller, text string, _ int) ([]db.Named, error) {
	if !id.Is(id.Destination, text) {
		return nil, nil
	}
	return s.findPart(ctx, `SELECT d.id, w.name, w.id FROM webhook_destinations d JOIN webhooks w ON w.org_id = d.org_id AND w.id = d.webhook_id
		WHERE d.org_id = $1 AND d.id = $2`, caller.OrgID, text)
}

// SearchReceipts finds a receipt by its own id or by a delivery's. The result carries the webhook's
// name.
func (s *Store) SearchReceipts(ctx context.Context, caller *auth.Caller, text string, _ int) ([]db.Named, error) {
	switch {
	case id.Is(id.Receipt, text):
		return s.findPart(ctx, receiptOf(receiptTable, receiptIDColumn), caller.OrgID, bare(text))
	case id.Is(id.Delivery, text):
		return s.findPart(ctx, receiptOf(deliveryTable, "receipt_id"), caller.OrgID, bare(text))
	}
	return nil, nil
}

// receiptOf returns a query for the receipt behind a row, which it finds by organization and ULID.
// Keys begin with the webhook, so it costs one lookup for each webhook in the organization.
func receiptOf(table, receiptID string) string {
	return `SELECT receipt_id, name, id FROM (
			SELECT id, name, (SELECT ` + receiptID + ` FROM ` + table + ` WHERE key = substr(webhooks.id, 4) || $2) AS receipt_id
			FROM webhooks WHERE org_id = $1) AS found
		WHERE receipt_id IS NOT NULL LIMIT 1`
}

// findPart returns the part of a webhook that a query finds, if any.
func (s *Store) findPart(ctx context.Context, query string, args ...any) ([]db.Named, error) {
	var part db.Named
	err := s.DB.Read(ctx).Row(query, args...).Scan(&part.ID, &part.Name, &part.Parent)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find part of a webhook: %w", err)
	}
	return []db.Named{part}, nil
}

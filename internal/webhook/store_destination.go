package webhook

import (
	"context"
	"encoding/json"
	"errors"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
)

// maxDestinations bounds what one receipt fans out to.
const maxDestinations = 100

// sealPurpose binds sealed secrets to their column.
const sealPurpose = "webhook.destination.secret"

const destinationColumns = `id, created_at, updated_at, created_by, webhook_id, type, config, internal, metadata, version, org_id, secret`

func scanDestination(row db.Row) (d Destination, err error) {
	var config string
	var metadata *string
	if err := row.Scan(&d.ID, &d.CreatedAt, &d.UpdatedAt, &d.CreatedBy, &d.WebhookID, &d.Type, &config, &d.Internal, &metadata, &d.version,
		&d.orgID, &d.sealed); err != nil {
		return d, err
	}
	d.Metadata = rawOf(metadata)
	return d, json.Unmarshal([]byte(config), &d.Config)
}

// CreateDestination adds a destination to a webhook, internal ones too. NotFound for the webhook; Conflict when it has too many.
func (s *Store) CreateDestination(ctx context.Context, caller *auth.Caller, webhookID string, d Destination) (Destination, error) {
	d.orgID, d.WebhookID, d.CreatedBy = caller.OrgID, webhookID, caller.UserID
	err := s.DB.Write(ctx, func(tx *db.Tx) error {
		if _, err := get(tx, d.orgID, webhookID); err != nil {
			return err
		}
		return errors.Join(s.insertDestination(tx, d), s.Audit(tx, "webhook.destination-create", d.ID))
	})
	return d, err
}

// CreateDestinationTx adds a destination that the system keeps, inside the transaction of what it is for.
func (s *Store) CreateDestinationTx(tx *db.Tx, orgID, userID, webhookID string, n NewDestination) (Destination, error) {
	d, err := n.build(s.Now())
	if err != nil {
		return d, err
	}
	d.orgID, d.WebhookID, d.CreatedBy = orgID, webhookID, userID
	return d, s.insertDestination(tx, d)
}

func (s *Store) insertDestination(tx *db.Tx, d Destination) error {
	var n int
	err := tx.Row(`SELECT count(*) FROM webhook_destinations WHERE org_id = $1 AND webhook_id = $2`, d.orgID, d.WebhookID).Scan(&n)
	if err != nil {
		return err
	}
	if n >= maxDestinations {
		return errs.New(errs.Conflict, "the webhook has %d destinations, which is the most it may have", n)
	}
	_, err = tx.Exec(`INSERT INTO webhook_destinations (org_id, webhook_id, id, type, disabled, config, secret, internal, metadata,
		created_by, created_at, updated_at, version) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		d.orgID, d.WebhookID, d.ID, d.Type, d.Config.Disabled, string(d.Config.raw), s.Ring.Seal(sealPurpose, []byte(d.Secret)), d.Internal,
		textOf(d.Metadata), d.CreatedBy, d.CreatedAt, d.UpdatedAt, d.version)
	return errors.Join(err, tx.Bump(destinationsChanged))
}

// Destinations gives a webhook's destinations, oldest first, or NotFound.
func (s *Store) Destinations(ctx context.Context, orgID, webhookID string) ([]Destination, error) {
	q := s.DB.Read(ctx)
	if _, err := get(q, orgID, webhookID); err != nil {
		return nil, err
	}
	return db.Collect(q, scanDestination, `SELECT `+destinationColumns+` FROM webhook_destinations
		WHERE org_id = $1 AND webhook_id = $2 ORDER BY id`, orgID, webhookID)
}

// HasDestinationTx tells whether anything would be forwarded: callers may skip making an event that nobody wants.
func (s *Store) HasDestinationTx(tx *db.Tx, orgID, webhookID string) (bool, error) {
	var n int
	err := tx.Row(`SELECT count(*) FROM webhook_destinations WHERE org_id = $1 AND webhook_id = $2`, orgID, webhookID).Scan(&n)
	return n > 0, err
}

// changeDestination loads a destination for a user's change.
func changeDestination(tx *db.Tx, orgID, webhookID, destinationID string, match page.IfMatch) (Destination, error) {
	if _, err := get(tx, orgID, webhookID); err != nil {
		return Destination{}, err
	}
	d, err := scanDestination(tx.Row(`SELECT `+destinationColumns+` FROM webhook_destinations
		WHERE org_id = $1 AND webhook_id = $2 AND id = $3`, orgID, webhookID, destinationID))
	if errors.Is(err, db.ErrNoRows) {
		return d, errs.Missing("destination", destinationID)
	}
	if err != nil {
		return d, err
	}
	return d, errors.Join(userChange(d.Internal, "destination"), match.Check(d))
}

// UpdateDestination replaces a destination's settings; without settings nothing is changed. NotFound, Forbidden for an internal one,
// PreconditionFailed.
func (s *Store) UpdateDestination(
	ctx context.Context, orgID, webhookID, destinationID string, c *Config, match page.IfMatch,
) (d Destination, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		d, err = changeDestination(tx, orgID, webhookID, destinationID, match)
		if err != nil || c == nil {
			return err
		}
		d.Config, d.UpdatedAt, d.version = *c, stamp.Of(s.Now()), d.version+1
		return errors.Join(saveDestination(tx, d), s.Audit(tx, "webhook.destination-update", d.ID))
	})
	return d, err
}

func saveDestination(tx *db.Tx, d Destination) error {
	_, err := tx.Exec(`UPDATE webhook_destinations SET config = $4, disabled = $5, updated_at = $6, version = $7
		WHERE org_id = $1 AND webhook_id = $2 AND id = $3`,
		d.orgID, d.WebhookID, d.ID, string(d.Config.raw), d.Config.Disabled, d.UpdatedAt, d.version)
	return errors.Join(err, tx.Bump(destinationsChanged))
}

// disableGone sets disabled on a destination that answered 410. One that is deleted meanwhile needs nothing.
func (s *Store) disableGone(tx *db.Tx, destinationID string) error {
	d, err := destination(tx, destinationID)
	if err != nil || d == nil || d.Config.Disabled {
		return err
	}
	if d.Config, err = d.Config.disable(); err != nil {
		return err
	}
	d.UpdatedAt, d.version = stamp.Of(s.Now()), d.version+1
	return saveDestination(tx, *d)
}

// DeleteDestination removes a destination. Its deliveries stay in the list; those that are pending fail. Errors are those of
// UpdateDestination.
func (s *Store) DeleteDestination(ctx context.Context, orgID, webhookID, destinationID string, match page.IfMatch) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		if _, err := changeDestination(tx, orgID, webhookID, destinationID, match); err != nil {
			return err
		}
		_, err := tx.Exec(`DELETE FROM webhook_destinations WHERE org_id = $1 AND webhook_id = $2 AND id = $3`,
			orgID, webhookID, destinationID)
		return errors.Join(err, tx.Bump(destinationsChanged), s.Audit(tx, "webhook.destination-delete", destinationID))
	})
}

// destination gives a destination by its id alone, for the worker, or nil when there is none.
func destination(q db.Querier, destinationID string) (*Destination, error) {
	d, err := scanDestination(q.Row(`SELECT `+destinationColumns+` FROM webhook_destinations WHERE id = $1`, destinationID))
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	return &d, err
}

package webhook

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/webhook/queue"
)

// maxDestinations bounds the deliveries of one receipt.
const maxDestinations = 100

// destinationsChanged names the caches of destinations.
const destinationsChanged = "webhook.destinations"

// We seal each column for its own purpose.
const (
	secretPurpose = "webhook.destination.secret"
	configPurpose = "webhook.destination.config"
)

// errUnreadable means that a destination's config or secret is damaged, or sealed with another master
// key.
var errUnreadable = errors.New("webhook: destination cannot be read")

const destinationColumns = `id, created_at, updated_at, created_by, webhook_id, type, config, internal, metadata, version, org_id, secret,
	filter, config_schema, previous_secret, COALESCE(previous_until, 0)`

// scanDestination scans destinationColumns, then more.
func (s *Store) scanDestination(row db.Row, more ...any) (Destination, error) {
	var d Destination
	var config, secret, previous []byte
	var schema int64
	var metadata, filter *string
	if err := row.Scan(append([]any{
		&d.ID, &d.CreatedAt, &d.UpdatedAt, &d.CreatedBy, &d.WebhookID, &d.Type, &config, &d.Internal, &metadata,
		&d.version, &d.orgID, &secret, &filter, &schema, &previous, &d.previousUntil,
	}, more...)...); err != nil {
		return d, err
	}
	d.Metadata = rawOf(metadata)
	if err := s.unseal(&d, config, secret, previous); err != nil {
		return d, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	if filter == nil && d.Config.filter != nil {
		d.Ignored = []string{"filter"}
	}
	d.usePace(schema)
	return d, nil
}

// unseal opens a destination's config and signing keys.
func (s *Store) unseal(d *Destination, config, secret, previous []byte) error {
	text, err := s.Ring.Open(configPurpose, config)
	if err != nil {
		return fmt.Errorf("open config: %w", err)
	}
	if err := json.Unmarshal(text, &d.Config); err != nil {
		return fmt.Errorf("decode config: %w", err)
	}
	if d.signingKey, err = s.openKey(secret); err != nil {
		return err
	}
	if previous != nil {
		d.previousKey, err = s.openKey(previous)
	}
	return err
}

// openKey returns the signing key in a sealed secret.
func (s *Store) openKey(secret []byte) ([]byte, error) {
	plain, err := s.Ring.Open(secretPurpose, secret)
	if err != nil {
		return nil, fmt.Errorf("open secret: %w", err)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(string(plain), secretPrefix))
	if err != nil {
		return nil, fmt.Errorf("decode secret: %w", err)
	}
	return key, nil
}

// CreateDestination adds a destination to a webhook, even to an internal one. It returns NotFound if
// there is no such webhook, and Conflict if the webhook has too many destinations.
func (s *Store) CreateDestination(ctx context.Context, caller *auth.Caller, webhookID string, d Destination) (Destination, error) {
	d.orgID = caller.OrgID
	d.WebhookID = webhookID
	d.CreatedBy = caller.Actor()
	err := s.DB.Write(ctx, func(tx *db.Tx) error {
		w, err := get(tx, d.orgID, webhookID)
		if err != nil {
			return err
		}
		if err := w.checkReader(ctx); err != nil {
			return err
		}
		if err := s.insertDestination(tx, d); err != nil {
			return err
		}
		return s.Audit.Record(tx, "webhook.destination-create", d.ID)
	})
	return d, err
}

// CreateDestinationTx adds a system-owned destination, in the transaction that creates its owner.
func (s *Store) CreateDestinationTx(tx *db.Tx, by Creator, webhookID string, n NewDestination) (Destination, error) {
	d, err := n.build(s.Now())
	if err != nil {
		return d, err
	}
	d.orgID = by.OrgID
	d.WebhookID = webhookID
	d.CreatedBy = by.UserID
	return d, s.insertDestination(tx, d)
}

func (s *Store) insertDestination(tx *db.Tx, d Destination) error {
	n, err := countDestinations(tx, d.orgID, d.WebhookID)
	if err != nil {
		return err
	}
	if n >= maxDestinations {
		return errs.New(errs.Conflict, "the webhook has %d destinations, which is the maximum", n)
	}
	filter, err := s.filterColumn(tx, d.Config)
	if err != nil {
		return err
	}
	paused, err := s.pausedColumn(tx, d.Config)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(`INSERT INTO webhook_destinations (org_id, webhook_id, id, type, disabled, config, secret, internal, metadata,
		created_by, created_at, updated_at, version, failing_count, filter, config_schema, paused)
		VALUES (@org_id, @webhook_id, @id, @type, @disabled, @config, @secret, @internal, @metadata,
		@created_by, @created_at, @updated_at, @version, 0, @filter, @config_schema, @paused)`,
		db.Args{
			"org_id": d.orgID, "webhook_id": d.WebhookID, "id": d.ID, "type": d.Type, "disabled": d.Config.Disabled,
			"config": s.Ring.Seal(configPurpose, d.Config.raw), "secret": s.Ring.Seal(secretPurpose, []byte(d.Secret)),
			"internal": d.Internal, "metadata": textOf(d.Metadata), "created_by": d.CreatedBy, "created_at": d.CreatedAt,
			"updated_at": d.UpdatedAt, "version": d.version, "filter": filter, "config_schema": schemaOfPace, "paused": paused,
		}); err != nil {
		return fmt.Errorf("insert destination: %w", err)
	}
	if err := queue.AddLeases(tx, []string{d.ID}); err != nil {
		return err
	}
	return tx.Invalidate(destinationsChanged)
}

func countDestinations(q db.Querier, orgID, webhookID string) (n int, err error) {
	err = q.Row(`SELECT count(*) FROM webhook_destinations WHERE org_id = $1 AND webhook_id = $2`, orgID, webhookID).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count destinations: %w", err)
	}
	return n, nil
}

// Destinations returns a webhook's destinations with their health, oldest first, or NotFound.
func (s *Store) Destinations(ctx context.Context, orgID, webhookID string) ([]Destination, error) {
	q := s.DB.Read(ctx)
	if _, err := get(q, orgID, webhookID); err != nil {
		return nil, err
	}
	return db.Collect(q, s.scanListed, `SELECT `+destinationColumns+`, `+failingColumns+` FROM webhook_destinations d
		WHERE org_id = $1 AND webhook_id = $2 ORDER BY id`, orgID, webhookID)
}

func (s *Store) scanListed(row db.Row) (Destination, error) {
	var failing failingRow
	d, err := s.scanDestination(row, failing.columns()...)
	d.Failing = failing.failing()
	return d, err
}

// HasDestinationTx reports whether a webhook has a destination. Without one, callers can skip making
// an event that nobody would get.
func (s *Store) HasDestinationTx(tx *db.Tx, orgID, webhookID string) (bool, error) {
	n, err := countDestinations(tx, orgID, webhookID)
	return n > 0, err
}

// destinationForChange returns a destination that a user may change. It returns NotFound, Forbidden
// for an internal destination, or PreconditionFailed.
func (s *Store) destinationForChange(tx *db.Tx, to DestinationRef, match page.IfMatch) (Destination, error) {
	d, err := s.destinationOf(tx, to)
	if err != nil {
		return d, err
	}
	if err := checkUserChange(d.Internal, "destination"); err != nil {
		return d, err
	}
	w, err := get(tx, to.OrgID, to.WebhookID)
	if err != nil {
		return d, err
	}
	if err := w.checkReader(tx.Context()); err != nil {
		return d, err
	}
	return d, match.Check(d)
}

// UpdateDestination replaces a destination's config; nil changes nothing. It returns errors from
// destinationForChange.
func (s *Store) UpdateDestination(
	ctx context.Context, to DestinationRef, c *Config, match page.IfMatch,
) (d Destination, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		d, err = s.destinationForChange(tx, to, match)
		if err != nil || c == nil {
			return err
		}
		if d.Config, err = c.unmasked(d.Config); err != nil {
			return err
		}
		if err := s.saveConfig(tx, &d); err != nil {
			return err
		}
		if err := s.saveFilter(tx, &d); err != nil {
			return err
		}
		if err := s.savePace(tx, &d); err != nil {
			return err
		}
		health := noteWaiting
		if c.Disabled || d.pace.paused { // on purpose, so it does not count as failing
			health = clearHealth
		}
		if err := health(tx, d.ID); err != nil {
			return err
		}
		return s.Audit.Record(tx, "webhook.destination-update", d.ID)
	})
	return d, err
}

// saveConfig writes a destination's config as a new version.
func (s *Store) saveConfig(tx *db.Tx, d *Destination) error {
	d.UpdatedAt = stamp.Of(s.Now())
	d.version++
	if _, err := tx.Exec(`UPDATE webhook_destinations
		SET config = @config, disabled = @disabled, updated_at = @updated_at, version = @version
		WHERE org_id = @org_id AND webhook_id = @webhook_id AND id = @id`,
		db.Args{
			"org_id": d.orgID, "webhook_id": d.WebhookID, "id": d.ID, "config": s.Ring.Seal(configPurpose, d.Config.raw),
			"disabled": d.Config.Disabled, "updated_at": d.UpdatedAt, "version": d.version,
		}); err != nil {
		return fmt.Errorf("update destination: %w", err)
	}
	return tx.Invalidate(destinationsChanged)
}

// disableGone disables a destination that responded with 410, unless it has been deleted or disabled
// in the meantime.
func (s *Store) disableGone(tx *db.Tx, destinationID string) error {
	d, err := s.destination(tx, destinationID)
	if errors.Is(err, db.ErrNoRows) {
		return nil
	}
	if err != nil || d.Config.Disabled {
		return err
	}
	if d.Config, err = d.Config.disable(); err != nil {
		return err
	}
	return s.saveConfig(tx, &d)
}

// DeleteDestination removes a destination. Its deliveries stay listed; pending ones fail. It returns
// errors from destinationForChange.
func (s *Store) DeleteDestination(ctx context.Context, to DestinationRef, match page.IfMatch) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		if _, err := s.destinationForChange(tx, to, match); err != nil {
			return err
		}
		n, err := tx.Exec(`DELETE FROM webhook_destinations WHERE org_id = $1 AND webhook_id = $2 AND id = $3`,
			to.OrgID, to.WebhookID, to.ID)
		if err != nil {
			return fmt.Errorf("delete destination: %w", err)
		}
		if n == 0 { // another request got there first
			return errs.Missing("destination", to.ID)
		}
		if err := tx.Invalidate(destinationsChanged); err != nil {
			return err
		}
		return s.Audit.Record(tx, "webhook.destination-delete", to.ID)
	})
}

// destinationOf returns a destination, or NotFound if it or its webhook does not exist.
func (s *Store) destinationOf(q db.Querier, to DestinationRef) (Destination, error) {
	if _, err := get(q, to.OrgID, to.WebhookID); err != nil {
		return Destination{}, err
	}
	d, err := s.scanDestination(q.Row(`SELECT `+destinationColumns+` FROM webhook_destinations
		WHERE org_id = $1 AND webhook_id = $2 AND id = $3`, to.OrgID, to.WebhookID, to.ID))
	if errors.Is(err, db.ErrNoRows) {
		return Destination{}, errs.Missing("destination", to.ID)
	}
	if err != nil {
		return Destination{}, fmt.Errorf("read destination: %w", err)
	}
	return d, nil
}

// destination returns a destination by its id alone, or ErrNoRows.
func (s *Store) destination(q db.Querier, destinationID string) (Destination, error) {
	d, err := s.scanDestination(q.Row(`SELECT `+destinationColumns+` FROM webhook_destinations WHERE id = $1`, destinationID))
	if err != nil {
		return d, fmt.Errorf("read destination: %w", err)
	}
	return d, nil
}

// destinationState reports whether a destination exists and is disabled.
func destinationState(q db.Querier, destinationID string) (exists, disabled bool, err error) {
	err = q.Row(`SELECT disabled FROM webhook_destinations WHERE id = $1`, destinationID).Scan(&disabled)
	if errors.Is(err, db.ErrNoRows) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("read destination: %w", err)
	}
	return true, disabled, nil
}

package alert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"steward/internal/account"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/mail"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Store has this package's SQL.
type Store struct {
	DB       *db.DB
	Ring     *seal.Ring
	Now      func() time.Time
	Audit    *audit.Store
	Accounts *account.Store
	// Mail is the queue of mail, or nil if no mail server is set.
	Mail *mail.Store
	// HasBackups reports whether backups are made at a schedule.
	HasBackups bool
}

const (
	// schema is the migration that alerts came with.
	schema = 53
	// targetPurpose binds sealed targets to their column.
	targetPurpose = "alert.target"
)

const columns = `org_id, id, name, kind, params, target, repeat_hours, disabled, state, since, clear_since, summary, notified_at,
	notice, created_by, created_at, updated_at, version`

// scan reads an alert with its target. If the target is damaged, or sealed with another master key, it is
// empty.
func (s *Store) scan(row db.Row) (a Alert, err error) {
	var sealed []byte
	var notice *string
	if err := row.Scan(&a.orgID, &a.ID, &a.Name, &a.Kind, db.FromJSON(&a.Params), &sealed, &a.RepeatHours, &a.Disabled, &a.State,
		&a.Since, &a.clearSince, &a.Summary, &a.notifiedAt, &notice, &a.CreatedBy, &a.CreatedAt, &a.UpdatedAt, &a.version); err != nil {
		return Alert{}, err
	}
	if notice != nil {
		if err := json.Unmarshal([]byte(*notice), &a.LastNotice); err != nil {
			return Alert{}, fmt.Errorf("decode notice: %w", err)
		}
	}
	a.Target = s.openTarget(sealed)
	return a, nil
}

func (s *Store) sealTarget(t Target) []byte { return s.Ring.Seal(targetPurpose, []byte(db.ToJSON(t))) }

// openTarget returns a sealed target, or an empty one if it cannot be read.
func (s *Store) openTarget(sealed []byte) (t Target) {
	plain, err := s.Ring.Open(targetPurpose, sealed)
	if err != nil || json.Unmarshal(plain, &t) != nil {
		return Target{}
	}
	return t
}

// args returns the columns that an update can change.
func (s *Store) args(a Alert) db.Args {
	return db.Args{
		"org_id": a.orgID, "id": a.ID, "name": a.Name, "params": db.ToJSON(a.Params), "target": s.sealTarget(a.Target),
		"repeat_hours": a.RepeatHours, "disabled": a.Disabled, "state": a.State, "since": a.Since, "clear_since": a.clearSince,
		"summary": a.Summary, "updated_at": a.UpdatedAt, "version": a.version,
	}
}

// List returns an organization's alerts, oldest first.
func (s *Store) List(ctx context.Context, orgID string) ([]Alert, error) {
	list, err := db.Collect(s.DB.Read(ctx), s.scan, `SELECT `+columns+` FROM alerts WHERE org_id = $1 ORDER BY id`, orgID)
	if err != nil {
		return nil, fmt.Errorf("list alerts: %w", err)
	}
	return list, nil
}

// Get returns an organization's alert, or NotFound.
func (s *Store) Get(ctx context.Context, orgID, alertID string) (Alert, error) {
	return s.found(s.DB.Read(ctx).Row(`SELECT `+columns+` FROM alerts WHERE org_id = $1 AND id = $2`, orgID, alertID), alertID)
}

// found returns a row's alert, or NotFound.
func (s *Store) found(row db.Row, alertID string) (Alert, error) {
	a, err := s.scan(row)
	if errors.Is(err, db.ErrNoRows) {
		return Alert{}, errs.Missing("alert", alertID)
	}
	if err != nil {
		return Alert{}, fmt.Errorf("read alert: %w", err)
	}
	return a, nil
}

// checkKind returns an error if the organization may not have alerts of a kind, or nothing could fire
// them.
func (s *Store) checkKind(ctx context.Context, orgID string, k Kind) error {
	if kinds[k].installation {
		first, _, err := s.Accounts.FirstOrg(ctx)
		if err != nil {
			return err
		}
		if orgID != first {
			return errs.New(errs.Forbidden, "alerts of the kind %s concern the whole installation, and only its first organization can have them", k)
		}
	}
	if k == BackupFailed && !s.HasBackups {
		return errs.InvalidField("body.kind", "expected another kind: this installation makes no backups at a schedule")
	}
	return nil
}

// checkTarget returns Invalid if we cannot send notices to an alert's target.
func (s *Store) checkTarget(tx *db.Tx, a Alert) error {
	if a.Target.Type != Mail {
		return nil
	}
	if s.Mail == nil {
		return errs.InvalidField("body.target.type", "expected webhook or slack: this installation sends no mail")
	}
	for _, to := range a.Target.To {
		has, err := s.Accounts.HasAddress(tx, a.orgID, to)
		if err != nil {
			return err
		}
		if !has {
			return errs.InvalidField("body.target.to", "expected addresses of active members of the organization")
		}
	}
	return nil
}

// Create adds an alert to the caller's organization. It returns Invalid, Forbidden for an alert about the
// installation, and Conflict if there are too many.
func (s *Store) Create(ctx context.Context, caller *auth.Caller, n NewAlert) (Alert, error) {
	a := n.alert(s.Now())
	a.Target = a.Target.normal()
	a.orgID = caller.OrgID
	a.CreatedBy = caller.Actor()
	if err := s.checkKind(ctx, a.orgID, a.Kind); err != nil {
		return Alert{}, err
	}
	err := s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := db.RequireSchema(tx, s.Now(), schema, "an alert"); err != nil {
			return err
		}
		if err := account.LockOrg(tx, a.orgID); err != nil {
			return err
		}
		if err := s.checkTarget(tx, a); err != nil {
			return err
		}
		var count int
		if err := tx.Row(`SELECT count(*) FROM alerts WHERE org_id = $1`, a.orgID).Scan(&count); err != nil {
			return fmt.Errorf("count alerts: %w", err)
		}
		if count >= maxAlerts {
			return errs.New(errs.Conflict, "an organization can have %d alerts", maxAlerts)
		}
		args := s.args(a)
		args["kind"] = a.Kind
		args["created_by"] = a.CreatedBy
		args["created_at"] = a.CreatedAt
		if _, err := tx.Exec(`INSERT INTO alerts (org_id, id, name, kind, params, target, repeat_hours, disabled, state, since, clear_since,
			summary, created_by, created_at, updated_at, version) VALUES (@org_id, @id, @name, @kind, @params, @target, @repeat_hours,
			@disabled, @state, @since, @clear_since, @summary, @created_by, @created_at, @updated_at, @version)`, args); err != nil {
			return fmt.Errorf("insert alert: %w", err)
		}
		return s.Audit.Record(tx, "alert.create", a.ID)
	})
	return a, err
}

// lock returns an alert and locks its row until the transaction ends, or returns NotFound or
// PreconditionFailed.
func (s *Store) lock(tx *db.Tx, orgID, alertID string, match page.IfMatch) (Alert, error) {
	a, err := s.found(tx.Row(`UPDATE alerts SET version = version WHERE org_id = $1 AND id = $2 RETURNING `+columns, orgID, alertID), alertID)
	if err != nil {
		return a, err
	}
	return a, match.Check(a)
}

// Update applies a patch to an alert. It returns the same errors as Create, NotFound and
// PreconditionFailed.
func (s *Store) Update(ctx context.Context, c Change, p Patch) (a Alert, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		before, err := s.lock(tx, c.OrgID, c.ID, c.Match)
		if err != nil {
			return err
		}
		if a, err = p.apply(before, s.Now()); err != nil {
			return err
		}
		a.Target = a.Target.normal()
		if err := s.checkTarget(tx, a); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE alerts SET name = @name, params = @params, target = @target, repeat_hours = @repeat_hours,
			disabled = @disabled, state = @state, since = @since, clear_since = @clear_since, summary = @summary,
			updated_at = @updated_at, version = @version WHERE org_id = @org_id AND id = @id`, s.args(a)); err != nil {
			return fmt.Errorf("update alert: %w", err)
		}
		return s.Audit.Record(tx, "alert.update", a.ID)
	})
	return a, err
}

// Change names an alert to change, if its version matches.
type Change struct {
	OrgID, ID string
	Match     page.IfMatch
}

// Delete removes an alert with the notices that have not been sent. It returns NotFound and
// PreconditionFailed.
func (s *Store) Delete(ctx context.Context, c Change) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		if _, err := s.lock(tx, c.OrgID, c.ID, c.Match); err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM alert_notices WHERE org_id = $1 AND alert_id = $2`, c.OrgID, c.ID); err != nil {
			return fmt.Errorf("delete notices: %w", err)
		}
		if _, err := tx.Exec(`DELETE FROM alerts WHERE org_id = $1 AND id = $2`, c.OrgID, c.ID); err != nil {
			return fmt.Errorf("delete alert: %w", err)
		}
		return s.Audit.Record(tx, "alert.delete", c.ID)
	})
}

// enabled returns up to n enabled alerts in all organizations, after one of them.
func (s *Store) enabled(ctx context.Context, after Alert, n int) ([]Alert, error) {
	list, err := db.Collect(s.DB.Read(ctx), s.scan, `SELECT `+columns+` FROM alerts WHERE (org_id, id) > ($1, $2) AND NOT disabled
		AND NOT EXISTS (SELECT 1 FROM deleted_orgs d WHERE d.org_id = alerts.org_id) ORDER BY org_id, id LIMIT $3`, after.orgID, after.ID, n)
	if err != nil {
		return nil, fmt.Errorf("list enabled alerts: %w", err)
	}
	return list, nil
}

// move writes what a measurement has changed, with the notice about event unless that is "". It does
// nothing if somebody else has changed the alert or made a notice about it meanwhile.
func (s *Store) move(ctx context.Context, before, after Alert, event Event) error {
	args := db.Args{
		"org_id": after.orgID, "id": after.ID, "version": after.version, "state": after.State, "since": after.Since,
		"clear_since": after.clearSince, "summary": after.Summary, "old_state": before.State, "old_since": before.Since, "old_notice": "",
	}
	if before.LastNotice != nil {
		args["old_notice"] = before.LastNotice.ID
	}
	set := `state = @state, since = @since, clear_since = @clear_since, summary = @summary`
	var m message
	if event != "" {
		m = newMessage(event, before, after, s.Now())
		set += `, notified_at = @notified_at, notice_id = @notice_id, notice = @notice`
		args["notified_at"] = m.At
		args["notice_id"] = m.ID
		args["notice"] = db.ToJSON(m.notice())
	}
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		n, err := tx.Exec(`UPDATE alerts SET `+set+` WHERE org_id = @org_id AND id = @id AND version = @version
			AND state = @old_state AND since = @old_since AND COALESCE(notice_id, '') = @old_notice`, args)
		if err != nil {
			return fmt.Errorf("update state of alert: %w", err)
		}
		if n == 0 || event == "" {
			return nil
		}
		if _, err := tx.Exec(`INSERT INTO alert_notices (org_id, id, alert_id, body, attempts, next_at, created_at)
			VALUES ($1, $2, $3, $4, 0, $5, $5)`, m.OrgID, m.ID, m.AlertID, db.ToJSON(m), m.At); err != nil {
			return fmt.Errorf("insert notice: %w", err)
		}
		return nil
	})
}

// waiting is a notice that waits to be sent.
type waiting struct {
	message
	target    Target
	attempts  int64
	createdAt stamp.Time
}

// HasDue reports whether a notice is due.
func (s *Store) HasDue(ctx context.Context) (bool, error) {
	list, err := s.due(ctx, 1)
	return len(list) > 0, err
}

// due returns up to n notices that are due, at most one for each alert: its next one waits until this one
// was sent or given up.
func (s *Store) due(ctx context.Context, n int) ([]waiting, error) {
	list, err := db.Collect(s.DB.Read(ctx), func(row db.Row) (w waiting, err error) {
		var sealed []byte
		err = row.Scan(db.FromJSON(&w.message), &w.attempts, &w.createdAt, &sealed)
		w.target = s.openTarget(sealed)
		return w, err
	}, `SELECT n.body, n.attempts, n.created_at, a.target FROM alert_notices n JOIN alerts a ON a.org_id = n.org_id AND a.id = n.alert_id
		WHERE n.next_at <= $1 AND NOT EXISTS (SELECT 1 FROM alert_notices e
			WHERE e.org_id = n.org_id AND e.alert_id = n.alert_id AND e.id < n.id)
		AND NOT EXISTS (SELECT 1 FROM deleted_orgs d WHERE d.org_id = n.org_id)
		ORDER BY n.next_at, n.id LIMIT $2`, stamp.Of(s.Now()), n)
	if err != nil {
		return nil, fmt.Errorf("list notices: %w", err)
	}
	return list, nil
}

// finish removes a notice that was sent or given up, and shows that with its alert.
func (s *Store) finish(tx *db.Tx, m message, state NoticeState, problem string) error {
	if _, err := tx.Exec(`DELETE FROM alert_notices WHERE org_id = $1 AND id = $2`, m.OrgID, m.ID); err != nil {
		return fmt.Errorf("delete notice: %w", err)
	}
	return s.show(tx, m, state, problem)
}

// postpone lets a notice wait for another attempt.
func (s *Store) postpone(tx *db.Tx, w waiting, until stamp.Time, problem string) error {
	if _, err := tx.Exec(`UPDATE alert_notices SET attempts = $3, next_at = $4 WHERE org_id = $1 AND id = $2`,
		w.OrgID, w.ID, w.attempts+1, until); err != nil {
		return fmt.Errorf("postpone notice: %w", err)
	}
	return s.show(tx, w.message, Pending, problem)
}

// show updates the notice of an alert, unless it has a later one.
func (s *Store) show(tx *db.Tx, m message, state NoticeState, problem string) error {
	n := m.notice()
	n.State = state
	n.Error = problem
	if _, err := tx.Exec(`UPDATE alerts SET notice = $3 WHERE org_id = $1 AND id = $2 AND notice_id = $4`,
		m.OrgID, m.AlertID, db.ToJSON(n), m.ID); err != nil {
		return fmt.Errorf("update notice of alert: %w", err)
	}
	return nil
}

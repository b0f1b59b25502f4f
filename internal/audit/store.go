package audit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/list"
	"steward/internal/page"
	"steward/internal/stamp"
)

// Store holds this package's SQL.
type Store struct {
	DB  *db.DB
	Now func() time.Time
	// Retention is how long we keep entries.
	Retention time.Duration
	// Recorded, if not nil, is called with each entry, in its transaction.
	Recorded func(tx *db.Tx, orgID string, e Entry) error
}

// Record writes an entry about an action by the transaction's caller. A caller with neither user nor
// client is Steward itself. Without a caller, as at the first start, Record writes nothing, because the
// entry would belong to no organization.
func (s *Store) Record(tx *db.Tx, action, target string) error {
	caller := auth.Lookup(tx.Context())
	if caller == nil {
		return nil
	}
	requestID, remoteAddr := source(tx.Context())
	now := s.Now()
	e := Entry{
		ID: id.At(id.Audit, now), At: stamp.Of(now), UserID: db.Null(caller.UserID), KeyID: db.Null(caller.KeyID),
		ClientID: db.Null(caller.ClientID), Action: action, Target: target, RemoteAddr: remoteAddr, RequestID: requestID,
	}
	err := tx.Send(`INSERT INTO audit (org_id, id, at, user_id, key_id, client_id, thing, action, target,
		remote_addr, request_id) VALUES (@org_id, @id, @at, @user_id, @key_id, @client_id, @thing, @action, @target,
		@remote_addr, @request_id)`,
		db.Args{
			"org_id": caller.OrgID, "id": e.ID, "at": e.At, "user_id": e.UserID, "key_id": e.KeyID, "client_id": e.ClientID,
			"thing": thingOf(action), "action": action, "target": target, "remote_addr": remoteAddr, "request_id": requestID,
		})
	if err != nil {
		return fmt.Errorf("insert audit entry: %w", err)
	}
	if s.Recorded == nil {
		return nil
	}
	return s.Recorded(tx, caller.OrgID, e)
}

// List returns a page of an organization's entries that match a filter, newest first. It returns Invalid
// for another list's cursor.
//
// Each filter value has an index in the log's order, so with a single value a page costs as much as it
// holds. For several values, or a value and a time span, the database chooses one index and skips the
// entries that do not match.
func (s *Store) List(ctx context.Context, orgID string, f Filter, p page.Paging) (page.Page[Entry], error) {
	return f.list(orgID).Page(s.DB.Read(ctx), p, page.Unknown)
}

const entryColumns = `id, at, user_id, key_id, client_id, action, target, remote_addr, request_id`

func scanEntry(row db.Row) (e Entry, err error) {
	err = row.Scan(&e.ID, &e.At, &e.UserID, &e.KeyID, &e.ClientID, &e.Action, &e.Target, &e.RemoteAddr, &e.RequestID)
	return e, err
}

// list returns the query for an organization's matching entries. An id contains its time in milliseconds,
// so a time span is a range in each index.
func (f Filter) list(orgID string) list.Query[Entry] {
	order := list.ByID(`id`, id.Audit, func(e Entry) string { return e.ID })
	where := list.Where(`org_id = ?`, orgID)
	if f.End != nil {
		order.Begin = []any{firstID(f.End.Std().Add(time.Millisecond))}
		where.Add(`at < ?`, *f.End)
	}
	if f.Start != nil {
		where.Add(`id >= ?`, firstID(f.Start.Std()))
		where.Add(`at >= ?`, *f.Start)
	}
	where.Equal(`target`, f.Target)
	where.Equal(f.actorColumn(), f.Actor)
	if strings.HasSuffix(f.Action, ".") {
		where.Equal(`thing`, thingOf(f.Action))
	} else {
		where.Equal(`action`, f.Action)
	}
	return list.Query[Entry]{
		Name: "audit entries", From: list.Text(`audit`), Where: where, Order: order, Columns: entryColumns, Scan: scanEntry,
	}
}

// firstID returns a text that sorts before all ids from this millisecond and after all earlier ones.
func firstID(t time.Time) string {
	const timeDigits = 10 // in a ULID
	return id.At(id.Audit, t)[:len(id.Audit)+1+timeDigits]
}

// RecordUser writes an entry about a user's account into the log of every organization that the user
// belongs to, since an account belongs to none. by is the acting user; it is empty if unknown.
func (s *Store) RecordUser(tx *db.Tx, action, userID, by string) error {
	requestID, remoteAddr := source(tx.Context())
	now := s.Now()
	e := Entry{
		ID: id.At(id.Audit, now), At: stamp.Of(now), UserID: db.Null(by), Action: action, Target: userID, RemoteAddr: remoteAddr,
		RequestID: requestID,
	}
	err := tx.Send(`INSERT INTO audit (org_id, id, at, user_id, thing, action, target, remote_addr, request_id)
		SELECT org_id, @id, @at, @by, @thing, @action, @target, @remote_addr, @request_id
		FROM active_members WHERE user_id = @target`,
		db.Args{
			"id": e.ID, "at": e.At, "by": e.UserID, "thing": thingOf(action), "action": action,
			"target": userID, "remote_addr": remoteAddr, "request_id": requestID,
		})
	if err != nil {
		return fmt.Errorf("insert audit entries of user: %w", err)
	}
	if s.Recorded == nil {
		return nil
	}
	orgIDs, err := db.Collect(tx, db.Value[string], `SELECT org_id FROM active_members WHERE user_id = $1 ORDER BY org_id`, userID)
	if err != nil {
		return fmt.Errorf("list organizations of user: %w", err)
	}
	for _, orgID := range orgIDs {
		if err := s.Recorded(tx, orgID, e); err != nil {
			return err
		}
	}
	return nil
}

const (
	// purgeBatch caps the entries that one transaction removes, so that others hardly wait for it.
	// purgeRounds caps the transactions for one organization before the next has its turn.
	purgeBatch  = 500
	purgeRounds = 100
)

// Purge removes entries older than the retention, in batches. It leaves the rest for the next call.
func (s *Store) Purge(ctx context.Context) error {
	before := firstID(s.Now().Add(-s.Retention))
	for orgID := ""; ; {
		var err error
		orgID, err = s.nextOrg(ctx, orgID)
		if err != nil || orgID == "" {
			return err
		}
		if err := s.purgeOrg(ctx, orgID, before); err != nil {
			return fmt.Errorf("delete old audit entries: %w", err)
		}
	}
}

// nextOrg returns the next organization in the log, or "".
func (s *Store) nextOrg(ctx context.Context, after string) (orgID string, err error) {
	err = s.DB.Read(ctx).Row(`SELECT org_id FROM audit WHERE org_id > $1 ORDER BY org_id LIMIT 1`, after).Scan(&orgID)
	if err != nil && !errors.Is(err, db.ErrNoRows) {
		return "", fmt.Errorf("list organizations of the audit log: %w", err)
	}
	return orgID, nil
}

// purgeOrg removes an organization's old entries.
func (s *Store) purgeOrg(ctx context.Context, orgID, before string) error {
	for range purgeRounds {
		var n int64
		err := s.DB.Write(ctx, func(tx *db.Tx) (err error) {
			n, err = tx.Exec(`DELETE FROM audit WHERE org_id = $1 AND id IN (SELECT id FROM audit
				WHERE org_id = $1 AND id < $2 ORDER BY id LIMIT $3)`, orgID, before, purgeBatch)
			return err
		})
		if err != nil || n < purgeBatch {
			return err
		}
	}
	return nil
}

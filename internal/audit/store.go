package audit

import (
	"context"
	"fmt"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/id"
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

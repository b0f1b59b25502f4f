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

// Store is the SQL of this package.
type Store struct {
	DB  *db.DB
	Now func() time.Time
	// Request returns id and remote address of the request that a context belongs to. It may be
	// nil.
	Request func(context.Context) (requestID, remoteAddr string)
	// Retention is how long entries are kept.
	Retention time.Duration
}

// Record writes an entry about what the transaction's caller does. A caller with neither user nor
// client is Steward itself. Without a caller, as at the first start, Record writes nothing: the
// entry would belong to no organization.
func (s *Store) Record(tx *db.Tx, action, target string) error {
	caller := auth.Lookup(tx.Context())
	if caller == nil {
		return nil
	}
	requestID, remoteAddr := s.source(tx.Context())
	now := s.Now()
	err := tx.Send(`INSERT INTO audit (org_id, id, at, user_id, key_id, client_id, thing, action, target,
		remote_addr, request_id) VALUES (@org_id, @id, @at, @user_id, @key_id, @client_id, @thing, @action, @target,
		@remote_addr, @request_id)`,
		db.Args{
			"org_id": caller.OrgID, "id": id.At(id.Audit, now), "at": stamp.Of(now), "user_id": db.Null(caller.UserID),
			"key_id": db.Null(caller.KeyID), "client_id": db.Null(caller.ClientID), "thing": thingOf(action),
			"action": action, "target": target, "remote_addr": remoteAddr, "request_id": requestID,
		})
	if err != nil {
		return fmt.Errorf("insert audit entry: %w", err)
	}
	return nil
}

// source returns the id and the remote address of the request that a context belongs to, if there is one.
func (s *Store) source(ctx context.Context) (requestID, remoteAddr string) {
	if s.Request == nil {
		return "", ""
	}
	return s.Request(ctx)
}

// RemoteAddr returns where the request of a context came from, or "".
func (s *Store) RemoteAddr(ctx context.Context) string {
	_, remoteAddr := s.source(ctx)
	return remoteAddr
}

// List returns a page of the entries of an organization's log that a filter matches, newest first. It
// returns Invalid for a cursor of another list.
//
// Each value of a filter has an index in the order of the log, so a page with one value costs as
// much as it holds. Of several values, or a value and a span of time, the database chooses the
// index and skips the entries that do not match.
func (s *Store) List(ctx context.Context, orgID string, f Filter, p page.Paging) (page.Page[Entry], error) {
	return f.list(orgID).Page(s.DB.Read(ctx), p, page.Unknown)
}

const entryColumns = `id, at, user_id, key_id, client_id, action, target, remote_addr, request_id`

func scanEntry(row db.Row) (e Entry, err error) {
	err = row.Scan(&e.ID, &e.At, &e.UserID, &e.KeyID, &e.ClientID, &e.Action, &e.Target, &e.RemoteAddr, &e.RequestID)
	return e, err
}

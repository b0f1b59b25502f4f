package audit

import (
	"context"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/web"
)

// Store is all SQL of this package.
type Store struct {
	DB  *db.DB
	Now func() time.Time
}

// Record writes a line about what the transaction's caller does. Without a caller, as at the first start, nothing is written: there is no
// organization to show it to. A caller without a user is Steward itself.
func (s *Store) Record(tx *db.Tx, action, target string) error {
	caller := auth.Lookup(tx.Context())
	if caller == nil {
		return nil
	}
	now := s.Now()
	meta := web.Request(tx.Context())
	return tx.Send(`INSERT INTO audit (org_id, id, at, user_id, key_id, action, target, remote_addr, request_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, caller.OrgID, id.At(id.Audit, now), stamp.Of(now), optional(caller.UserID),
		optional(caller.KeyID), action, target, meta.RemoteAddr, meta.ID)
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// List gives a page of an organization's log, newest first.
func (s *Store) List(ctx context.Context, orgID string, p page.Paging) (page.Page[Entry], error) {
	before := "aue" // sorts after every id of this table
	if p.Cursor != "" {
		if err := p.Cursor.Scan(&before); err != nil {
			return page.Page[Entry]{}, err
		}
		p.Offset = 0
	}
	rows, err := db.Collect(s.DB.Read(ctx), func(row db.Row) (e Entry, err error) {
		err = row.Scan(&e.ID, &e.At, &e.UserID, &e.KeyID, &e.Action, &e.Target, &e.RemoteAddr, &e.RequestID)
		return e, err
	}, `SELECT id, at, user_id, key_id, action, target, remote_addr, request_id FROM audit
		WHERE org_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3 OFFSET $4`, orgID, before, p.Limit+1, p.Offset)
	return page.New(rows, page.Unknown, p, func(e Entry) page.Cursor { return page.NewCursor(e.ID) }), err
}

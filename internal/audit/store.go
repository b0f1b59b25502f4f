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
}

// Record writes an entry about what the transaction's caller does. A caller with neither user nor
// client is Steward itself. Without a caller, as at the first start, Record writes nothing: the entry would
// belong to no organization.
func (s *Store) Record(tx *db.Tx, action, target string) error {
	caller := auth.Lookup(tx.Context())
	if caller == nil {
		return nil
	}
	var requestID, remoteAddr string
	if s.Request != nil {
		requestID, remoteAddr = s.Request(tx.Context())
	}
	now := s.Now()
	err := tx.Send(`INSERT INTO audit (org_id, id, at, user_id, key_id, client_id, action, target, remote_addr,
		request_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		caller.OrgID, id.At(id.Audit, now), stamp.Of(now), nullable(caller.UserID), nullable(caller.KeyID),
		nullable(caller.ClientID), action, target, remoteAddr, requestID)
	if err != nil {
		return fmt.Errorf("insert audit entry: %w", err)
	}
	return nil
}

func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// afterAll sorts after every id of the table.
const afterAll = "aue"

// List returns a page of an organization's log, newest first.
func (s *Store) List(ctx context.Context, orgID string, p page.Paging) (page.Page[Entry], error) {
	before := afterAll
	if p.Cursor != "" {
		if err := p.Cursor.Scan(&before); err != nil {
			return page.Page[Entry]{}, err
		}
		p.Offset = 0
	}
	entries, err := db.Collect(s.DB.Read(ctx), scanEntry, `
		SELECT id, at, user_id, key_id, client_id, action, target, remote_addr, request_id FROM audit
		WHERE org_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3 OFFSET $4`, orgID, before, p.Limit+1, p.Offset)
	if err != nil {
		return page.Page[Entry]{}, fmt.Errorf("list audit entries: %w", err)
	}
	return page.New(entries, page.Unknown, p, func(e Entry) page.Cursor { return page.NewCursor(e.ID) }), nil
}

func scanEntry(row db.Row) (e Entry, err error) {
	err = row.Scan(&e.ID, &e.At, &e.UserID, &e.KeyID, &e.ClientID, &e.Action, &e.Target, &e.RemoteAddr, &e.RequestID)
	return e, err
}

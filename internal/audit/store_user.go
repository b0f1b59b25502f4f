package audit

import (
	"fmt"

	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/stamp"
)

// RecordUser writes an entry about a user's account into the log of every organization that the user
// belongs to, since an account belongs to none. by is the acting user; it is empty if unknown.
func (s *Store) RecordUser(tx *db.Tx, action, userID, by string) error {
	requestID, remoteAddr := source(tx.Context())
	now := s.Now()
	err := tx.Send(`INSERT INTO audit (org_id, id, at, user_id, thing, action, target, remote_addr, request_id)
		SELECT org_id, @id, @at, @by, @thing, @action, @target, @remote_addr, @request_id
		FROM active_members WHERE user_id = @target`,
		db.Args{
			"id": id.At(id.Audit, now), "at": stamp.Of(now), "by": db.Null(by), "thing": thingOf(action), "action": action,
			"target": userID, "remote_addr": remoteAddr, "request_id": requestID,
		})
	if err != nil {
		return fmt.Errorf("insert audit entries of user: %w", err)
	}
	return nil
}

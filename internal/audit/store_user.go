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

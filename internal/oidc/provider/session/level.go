package session

import "context"

// ForgetLevels empties the cache for the levels that users must reach. Call it when memberships or
// organizations' requirements change.
func (m *Manager) ForgetLevels() { m.required.Forget() }

// sufficient returns a session if it reaches the level its user must have, and nil otherwise.
func (m *Manager) sufficient(ctx context.Context, s *Session) (*Session, error) {
	level, err := m.required.Get(s.UserID, func() (string, error) { return m.Accounts.RequiredLevel(m.DB.Read(ctx), s.UserID) })
	if err != nil || !s.Methods.Reach(level) {
		return nil, err
	}
	return s, nil
}

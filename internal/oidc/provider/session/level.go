package session

import "context"

// ForgetLevels empties the cache of the levels that are required of users. It must be called when
// memberships, or what organizations require, have changed.
func (m *Manager) ForgetLevels() { m.required.Forget() }

// sufficient returns a session if it has the level that is required of its user, and nil otherwise.
func (m *Manager) sufficient(ctx context.Context, s *Session) (*Session, error) {
	level, err := m.required.Get(s.UserID, func() (string, error) { return m.Accounts.RequiredLevel(m.DB.Read(ctx), s.UserID) })
	if err != nil || !s.Methods.Reach(level) {
		return nil, err
	}
	return s, nil
}

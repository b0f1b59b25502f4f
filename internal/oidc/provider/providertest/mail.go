package providertest

import (
	"context"
	"slices"
	"sync"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/oidc/provider/links"
	"steward/internal/oidc/provider/selfservice"
	"steward/internal/oidc/provider/signin"
)

// Mail records the mail that a provider asks for.
type Mail struct {
	fixture *Fixture

	mu   sync.Mutex
	asks []string
}

// ServeWithMail serves a provider that can have mail sent.
func (f *Fixture) ServeWithMail() *Mail {
	f.T.Helper()
	m := &Mail{fixture: f}
	p := f.NewProvider()
	p.Users.Notify = func(tx *db.Tx, userID string, n signin.Notice) error {
		email, err := f.Accounts.Email(tx, userID)
		tx.OnCommit(func() { m.add(string(n) + " " + email) })
		return err
	}
	p.Resets.Mail = &links.ResetMail{
		Problem: account.EmailProblem,
		Request: func(tx *db.Tx, email string) error {
			tx.OnCommit(func() { m.add("reset " + email) })
			return nil
		},
	}
	p.Account.EmailChanges = &selfservice.EmailChanges{
		Problem: account.EmailProblem,
		Request: func(tx *db.Tx, userID, email string) error {
			tx.OnCommit(func() { m.add("email of " + userID) })
			return f.Accounts.RequestEmail(tx, userID, email)
		},
		Get: func(ctx context.Context, token string) (selfservice.EmailChange, error) {
			c, err := f.Accounts.EmailChangeOf(ctx, token)
			return selfservice.EmailChange{UserID: c.UserID, Email: c.Email}, err
		},
		Use: f.Accounts.UseEmailChange,
	}
	f.Serve(p)
	return m
}

func (m *Mail) add(ask string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asks = append(m.asks, ask)
}

// Want requires the mail that was asked for since the last call: "reset" or the name of a notice, and the
// address, or "email of" and the id of a user.
func (m *Mail) Want(asks ...string) {
	m.fixture.T.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Equal(m.asks, asks) {
		m.fixture.T.Errorf("asked for the mail %q, want %q", m.asks, asks)
	}
	m.asks = nil
}

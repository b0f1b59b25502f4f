package app

import (
	"context"

	"steward/internal/account"
	"steward/internal/audit"
	"steward/internal/db"
	"steward/internal/oidc/provider/signin"
	relying "steward/internal/oidc/provider/upstream"
	"steward/internal/oidc/upstream"
)

// wireUpstreams returns the providers with which members sign in.
func (b base) wireUpstreams(auditLog *audit.Store, accounts *account.Store) *signin.Upstreams {
	domains := upstream.Domains{Granted: b.cfg.UpstreamDomains, First: func(ctx context.Context) (string, error) {
		first, _, err := accounts.FirstOrg(ctx)
		return first, err
	}}
	transport := egress(b.cfg, b.addresses).Transport()
	return &signin.Upstreams{
		Store:    &upstream.Store{DB: b.db, Ring: b.ring, Now: b.now, Audit: auditLog.Record, Domains: domains},
		Client:   relying.New(transport, b.addresses.BaseURL+upstream.PathCallback, b.now),
		FirstOrg: accounts.FirstOrg,
		Members:  vouchedMembers(accounts),
	}
}

// vouchedMembers returns the members of organizations as sign-in with providers changes them.
func vouchedMembers(a *account.Store) signin.Members {
	return signin.Members{
		Standing: func(tx *db.Tx, orgID, userID string) (signin.Standing, error) {
			st, err := a.Standing(tx, orgID, userID)
			return signin.Standing(st), err
		},
		AcceptVerified: func(tx *db.Tx, n signin.Newcomer) (string, error) {
			return a.AcceptVerified(tx, account.Newcomer(n))
		},
		Admit:   func(tx *db.Tx, n signin.Newcomer) (string, error) { return a.Admit(tx, account.Newcomer(n)) },
		SetRole: func(tx *db.Tx, c signin.RoleChange) error { return a.SetRole(tx, account.RoleChange(c)) },
	}
}

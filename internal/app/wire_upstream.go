package app

import (
	"steward/internal/account"
	"steward/internal/audit"
	"steward/internal/db"
	"steward/internal/oidc/provider/admission"
	"steward/internal/oidc/provider/federation"
	"steward/internal/oidc/provider/signin"
	relying "steward/internal/oidc/provider/upstream"
	"steward/internal/oidc/upstream"
)

// wireUpstreams returns the providers with which members sign in.
func (b base) wireUpstreams(auditLog *audit.Store, accounts *account.Store) *federation.Upstreams {
	domains := upstream.Domains{Granted: b.cfg.UpstreamDomains, First: firstOrg(accounts)}
	transport := egress(b.cfg, b.addresses).Transport()
	store := &upstream.Store{
		DB: b.db, Ring: b.ring, Now: b.now, Audit: auditLog.Record, LockOrg: account.LockOrg, Domains: domains,
	}
	return &federation.Upstreams{
		Upstreams: signin.Upstreams{
			Admission: admission.Admission{Store: store, Members: vouchedMembers(accounts)}, FirstOrg: accounts.FirstOrg,
		},
		Client: relying.New(transport, b.addresses.BaseURL+upstream.PathCallback, b.now),
	}
}

// vouchedMembers returns the members of organizations as sign-in with providers changes them.
func vouchedMembers(a *account.Store) admission.Members {
	return admission.Members{
		Standing: func(tx *db.Tx, orgID, userID string) (admission.Standing, error) {
			st, err := a.Standing(tx, orgID, userID)
			return admission.Standing(st), err
		},
		AcceptVerified: func(tx *db.Tx, n admission.Newcomer) (string, error) {
			return a.AcceptVerified(tx, account.Newcomer(n))
		},
		Admit:   func(tx *db.Tx, n admission.Newcomer) (string, error) { return a.Admit(tx, account.Newcomer(n)) },
		SetRole: func(tx *db.Tx, c admission.RoleChange) error { return a.SetRole(tx, account.RoleChange(c)) },
	}
}

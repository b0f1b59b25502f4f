package providertest

import (
	"time"

	"steward/internal/account"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
)

// NewOrg creates another organization.
func (f *Fixture) NewOrg() (orgID string) {
	f.T.Helper()
	orgID = id.New(id.Org)
	Must(f.T, f.DB.Write(f.T.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO orgs (id, name, created_at) VALUES ($1, 'Other', 1)`, orgID)
		return err
	}))
	return orgID
}

// Invite invites an address to an organization, and returns the invitation's link.
func (f *Fixture) Invite(orgID, email string, role auth.Role) (link string) {
	f.T.Helper()
	ctx := auth.With(f.T.Context(), &auth.Caller{OrgID: orgID, UserID: f.UserID, Role: auth.Owner})
	_, token, err := f.Accounts.Invite(ctx, orgID, f.UserID, account.NewMember{Email: email, Role: role})
	Must(f.T, err)
	return f.URL + "/invite/" + token
}

// InviteByMail invites an address to an organization, and returns two links: the invitation's, and the
// one in the mail.
func (f *Fixture) InviteByMail(orgID, email string, role auth.Role) (link, mailed string) {
	f.T.Helper()
	ctx := auth.With(f.T.Context(), &auth.Caller{OrgID: orgID, UserID: f.UserID, Role: auth.Owner})
	m, token, err := f.Accounts.Invite(ctx, orgID, f.UserID, account.NewMember{Email: email, Role: role})
	Must(f.T, err)
	sent, err := f.Accounts.NewMailedInvitation(ctx, orgID, m.ID)
	Must(f.T, err)
	return f.URL + "/invite/" + token, f.URL + "/invite/" + sent.Token
}

// MailReset returns the link to set a new password that a mail to the user contains.
func (f *Fixture) MailReset(email string) string {
	f.T.Helper()
	f.Clock.Add(time.Minute) // a link may have been mailed just before
	token, _, err := f.Accounts.NewMailedReset(f.T.Context(), email)
	Must(f.T, err)
	return f.URL + "/reset/" + token
}

// Role returns a user's role in an organization, or "".
func (f *Fixture) Role(orgID, userID string) auth.Role {
	f.T.Helper()
	role, err := f.Accounts.Role(f.T.Context(), orgID, userID)
	if errs.KindOf(err) != errs.NotFound {
		Must(f.T, err)
	}
	return role
}

// RequireFactor makes the organization require a factor.
func (f *Fixture) RequireFactor(factor account.Factor, from auth.Role) {
	f.T.Helper()
	_, err := f.Accounts.ChangeOrg(f.Ctx, &auth.Caller{OrgID: f.OrgID, UserID: f.UserID}, page.IfMatch{}, account.OrgPatch{
		RequireMFA: page.Some(account.RequireMFA{Factor: factor, From: from}),
	})
	Must(f.T, err)
}

// NewReset returns a link that lets the owner set a new password.
func (f *Fixture) NewReset() string {
	f.T.Helper()
	var token string
	Must(f.T, f.DB.Write(f.Ctx, func(tx *db.Tx) (err error) {
		token, _, err = f.Accounts.NewReset(tx, f.UserID)
		return err
	}))
	return f.URL + "/reset/" + token
}

// Entries returns the organization's audit log, oldest entry first.
func (f *Fixture) Entries() (list []audit.Entry) {
	f.T.Helper()
	Must(f.T, f.Provider.RecordFailures(f.T.Context()))
	found, err := f.Audit.List(f.T.Context(), f.OrgID, audit.Filter{}, page.Paging{Limit: 100})
	Must(f.T, err)
	for _, e := range found.Items {
		list = append([]audit.Entry{e}, list...)
	}
	return list
}

// Audited reports whether the organization's audit log contains an action.
func (f *Fixture) Audited(action string) bool {
	f.T.Helper()
	found, err := f.Audit.List(f.Ctx, f.OrgID, audit.Filter{Action: action}, page.Paging{Limit: 10})
	Must(f.T, err)
	return len(found.Items) > 0
}

package app

import (
	"context"
	"fmt"
	netmail "net/mail"

	"steward/internal/account"
	"steward/internal/errs"
	"steward/internal/mail"
	protocol "steward/internal/oidc/provider/oauth"
)

// mailing connects the mail queue with the subjects of mail.
type mailing struct {
	store    *mail.Store
	worker   *mail.Worker
	accounts *account.Store
	baseURL  string // begins all links
}

// wireMail returns the parts that send mail, or nil if no mail server is set.
func (b base) wireMail(accounts *account.Store) (*mailing, error) {
	if b.cfg.SMTPURL == "" {
		return nil, nil
	}
	server, err := mail.ParseURL(string(b.cfg.SMTPURL))
	if err != nil {
		return nil, fmt.Errorf("the URL of the mail server must be %w", err)
	}
	if server.From, err = netmail.ParseAddress(b.cfg.MailFrom); err != nil {
		return nil, fmt.Errorf("parse the sender of mail: %w", err)
	}
	m := &mailing{
		store:    &mail.Store{DB: b.db, Ring: b.ring, Now: b.now},
		accounts: accounts, baseURL: b.addresses.BaseURL,
	}
	m.worker = &mail.Worker{Store: m.store, Server: server, Log: b.log, Compose: m.compose}
	accounts.Mail = m.store
	return m, nil
}

// compose makes the mail for a request, and its link's token. It returns NotFound if there is
// nothing to send any more.
func (m *mailing) compose(ctx context.Context, r mail.Request) (mail.Letter, error) {
	switch r.Kind {
	case mail.KindInvitation:
		return m.invitation(ctx, r)
	case mail.KindReset:
		token, expires, err := m.accounts.NewMailedReset(ctx, r.To)
		content := mail.Reset{Email: r.To, Link: account.ResetLink(m.baseURL, token), Expires: expires}
		return mail.Letter{To: r.To, Content: content.Content()}, err
	case mail.KindEmail:
		change, token, err := m.accounts.NewMailedEmail(ctx, r.UserID)
		link := m.baseURL + protocol.PathAccountEmail + "/" + token
		content := mail.NewEmail{Email: change.Email, Link: link, Expires: change.Expires}
		return mail.Letter{To: change.Email, Content: content.Content()}, err
	case mail.KindNotice:
		content := mail.Notice{
			Name: r.Notice, Email: r.To, RemoteAddr: r.RemoteAddr, At: r.At, Link: m.baseURL + protocol.PathAccount,
		}
		return mail.Letter{To: r.To, Content: content.Content()}, nil
	case mail.KindAlert:
		return m.alert(ctx, r)
	}
	return mail.Letter{}, errs.New(errs.Invalid, "mail of an unknown kind")
}

// alert makes the mail about an alert, which only a member gets.
func (m *mailing) alert(ctx context.Context, r mail.Request) (mail.Letter, error) {
	isMember, err := m.accounts.HasAddress(m.store.DB.Read(ctx), r.OrgID, r.To)
	if err != nil {
		return mail.Letter{}, err
	}
	if !isMember || r.Alert == nil {
		return mail.Letter{}, errs.Missing("member", r.To)
	}
	content := *r.Alert
	content.Link = m.baseURL + "/console/alerts"
	return mail.Letter{To: r.To, Content: content.Content()}, nil
}

func (m *mailing) invitation(ctx context.Context, r mail.Request) (mail.Letter, error) {
	i, err := m.accounts.NewMailedInvitation(ctx, r.OrgID, r.InvitationID)
	content := mail.Invitation{
		Org: i.OrgName, Role: string(i.Role), Inviter: i.Inviter, Link: m.baseURL + protocol.PathInvitation + i.Token,
		Expires: i.Expires,
	}
	return mail.Letter{To: i.Email, Content: content.Content()}, err
}

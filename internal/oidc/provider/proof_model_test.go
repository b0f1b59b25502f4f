package provider_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/oidc/upstream"
	"steward/internal/seal"
)

// person is one of the two people of a history, with all that they know or hold.
type person struct {
	name, password string
	browser        *providertest.Browser
	keys           []*providertest.Authenticator
	apps           []*providertest.AuthenticatorApp
	refresh        []string
	links          []link
}

// link is an address that a person got by mail, or that the API has returned.
type link struct {
	url    string
	mailed bool
	reset  string // the user whose password it sets, or ""
}

// history is about one address, which two organizations invite. The reader reads the mail that goes there. The other
// person owns one of the organizations and its provider, and sees all links that the API returns.
type history struct {
	*providertest.Fixture
	rt            *rapid.T
	email         string
	orgs          [2]string
	reader, other *person
	app           *providertest.App
	provider      *providertest.Stranger
	upstream      upstream.Upstream
	mails         bool // whether links are mailed
	// proved are the users for whom the reader has used a mailed link and signed in, unless somebody has used a
	// link that the API returned since.
	proved map[string]bool
}

func (h *history) pick(n int, what string) int { return int(rapid.Uint32().Draw(h.rt, what)) % n }

// newPerson returns a person at an address from which nobody else signs in.
func (h *history) newPerson(name string, n int) *person {
	p := &person{name: name, password: "a password of the " + name}
	p.browser = h.BrowserAt(fmt.Sprintf("10.%d.%d.%d", len(name), n/250, n%250+1))
	return p
}

// sessionOf returns the user who is signed in in a browser, or "".
func (h *history) sessionOf(b *providertest.Browser) (userID string) {
	err := h.DB.Read(h.T.Context()).Row(`SELECT COALESCE(MAX(user_id), '') FROM oidc_sessions WHERE token_hash = $1`,
		seal.Hash(b.SessionCookie())).Scan(&userID)
	providertest.Must(h.T, err)
	return userID
}

// invite has an organization invite the address, with or without mail.
func (h *history) invite() {
	org := h.orgs[h.pick(2, "organization")]
	ctx := auth.With(h.T.Context(), &auth.Caller{OrgID: org, UserID: h.UserID, Role: auth.Owner})
	role := []auth.Role{auth.Owner, auth.Member}[h.pick(2, "role")]
	m, token, err := h.Accounts.Invite(ctx, org, h.UserID, account.NewMember{Email: h.email, Role: role})
	if err != nil {
		return // it is invited already, or a member
	}
	shown := link{url: h.URL + "/invite/" + token}
	h.other.links = append(h.other.links, shown)
	if !h.mails || h.pick(3, "mail") == 0 {
		if h.pick(2, "hand over") == 0 {
			h.reader.links = append(h.reader.links, shown)
		}
		return
	}
	sent, err := h.Accounts.NewMailedInvitation(ctx, org, m.ID)
	providertest.Must(h.T, err)
	h.reader.links = append(h.reader.links, link{url: h.URL + "/invite/" + sent.Token, mailed: true})
}

// makeReset has a link made to set a new password: by an organization, or by mail.
func (h *history) makeReset() {
	login, err := h.Accounts.UserByEmail(h.T.Context(), h.email)
	if err != nil {
		return
	}
	if h.mails && h.pick(3, "by mail") > 0 {
		h.mailReset()
		return
	}
	caller := &auth.Caller{OrgID: h.orgs[h.pick(2, "organization")], UserID: "usr_other", Role: auth.Owner}
	token, _, err := h.Accounts.ResetPassword(auth.With(h.T.Context(), caller), caller, login.ID)
	if err == nil {
		h.other.links = append(h.other.links, link{url: h.URL + "/reset/" + token, reset: login.ID})
	}
}

// mailReset mails a link to set a new password, if somebody has an account with the address.
func (h *history) mailReset() {
	if login, err := h.Accounts.UserByEmail(h.T.Context(), h.email); err == nil {
		h.reader.links = append(h.reader.links, link{url: h.MailReset(h.email), mailed: true, reset: login.ID})
	}
}

// open has a person use one of their links.
func (h *history) open(p *person) {
	if len(p.links) > 0 {
		h.use(p, p.links[h.pick(len(p.links), "link")])
	}
}

// use has a person open a link, and do what its pages ask for.
func (h *history) use(p *person, l link) {
	page := p.browser.Get(l.url)
	if page.Status != http.StatusOK {
		return
	}
	h.answer(p, p.browser, page)
	if p.browser.Get(l.url).Status == http.StatusOK {
		return // it was not used
	}
	if l.reset != "" && !l.mailed {
		delete(h.proved, l.reset)
	}
	if user := h.sessionOf(p.browser); p == h.reader && l.mailed && user != "" {
		h.proved[user] = true
	}
}

// answer fills in pages as a person does, until one of them leads elsewhere.
func (h *history) answer(p *person, b *providertest.Browser, r *providertest.Response) {
	for range 8 {
		r = b.Follow(r)
		if r.Status != http.StatusOK {
			return
		}
		switch {
		case r.IsCode():
			if r = h.enterCode(p, b, r); r.IsCode() {
				return
			}
		case r.IsSignIn():
			if len(p.keys) > 0 && h.pick(2, "sign in with a passkey") == 0 {
				r = b.UsePasskey(r, p.keys[h.pick(len(p.keys), "passkey")])
				continue
			}
			r = b.Submit(r, "email", h.email, "password", p.password)
		case strings.Contains(r.Body, `name="account" value="own"`):
			r = b.Submit(r, "account", []string{"own", "new"}[h.pick(2, "account")])
		case strings.Contains(r.Body, "Use a passkey instead") && h.pick(3, "register with a passkey") == 0:
			_, action, _ := r.Form()
			key := h.NewAuthenticator()
			r = b.AddPasskey(b.Get(h.URL+action+"/passkey"), key)
			p.keys = append(p.keys, key)
		case strings.Contains(r.Body, `value="approve"`) || strings.Contains(r.Body, `"new-password"`):
			r = b.Submit(r, "password", p.password)
		default:
			return
		}
	}
}

// enterCode tries the codes of all apps of a person, and returns the last answer.
func (h *history) enterCode(p *person, b *providertest.Browser, r *providertest.Response) *providertest.Response {
	page := r
	for _, app := range p.apps {
		if r = b.Submit(page, "code", app.Code()); !r.IsCode() {
			return r
		}
	}
	return r
}

// signIn has a person sign in in a browser, with the password or with a passkey.
func (h *history) signIn(p *person, b *providertest.Browser) {
	if page := b.Get(h.URL + "/account"); page.IsSignIn() {
		h.answer(p, b, page)
	}
}

// enter has a person come from the provider.
func (h *history) enter(p *person, b *providertest.Browser) {
	h.provider.Say(map[string]any{"sub": h.email, "email": h.email, "email_verified": true})
	if h.sessionOf(b) != "" {
		b.SignOut()
	}
	h.answer(p, b, h.provider.Enter(b, h.upstream))
}

// add has a person who is signed in add a way to sign in, or let an application in.
func (h *history) add(p *person) {
	h.signIn(p, p.browser)
	b := p.browser
	account := b.Get(h.URL + "/account")
	if account.IsSignIn() {
		return
	}
	switch h.pick(4, "what") {
	case 0:
		if page := b.Get(h.URL + "/account/passkeys"); page.Status == http.StatusOK {
			key := h.NewAuthenticator()
			b.AddPasskey(page, key)
			p.keys = append(p.keys, key)
		}
	case 1:
		if strings.Contains(account.Body, `href="/account/authenticator"`) && p == h.other {
			if setup := b.Get(h.URL + "/account/authenticator"); setup.Status == http.StatusOK {
				app := h.ScanApp(setup)
				if added := b.Submit(setup, "code", app.Code()); added.Status == http.StatusOK { // else the sign-in is too old by now
					app.Keep(added)
					p.apps = append(p.apps, app)
				}
			}
		}
	case 2:
		if p == h.other && strings.Contains(account.Body, h.upstream.ID) { // others trust its owner
			if left := b.Post("/account/upstream", "upstream", h.upstream.ID); left.Status == http.StatusSeeOther {
				h.provider.Say(map[string]any{"sub": h.email})
				b.Get(h.provider.Back(h.Fixture, h.provider.Receive(left)))
			}
		}
	case 3:
		h.authorize(p)
	}
}

// authorize has a person let an application in.
func (h *history) authorize(p *person) {
	page := p.browser.Follow(p.browser.Get(h.app.AuthorizeURL()))
	if page.Status == http.StatusOK && strings.Contains(page.Body, `value="approve"`) {
		page = p.browser.Submit(page)
	}
	if page.Status == http.StatusSeeOther && page.Location().Get("code") != "" {
		tokens := h.app.Redeem(page.Location().Get("code")).Want(http.StatusOK)
		p.refresh = append(p.refresh, tokens.Text("refresh_token"))
	}
}

// step has one thing happen. The other person comes first.
func (h *history) step(early bool) {
	h.Clock.Add(time.Minute)
	switch kind := h.pick(10, "step"); {
	case kind < 2:
		h.invite()
	case kind < 4:
		h.open(h.other)
	case kind < 6:
		h.add(h.other)
	case kind < 7:
		h.enter(h.other, h.other.browser)
	case early:
		h.open(h.other)
	case kind < 8:
		h.makeReset()
	case kind < 9:
		h.open(h.reader)
	default:
		h.add(h.reader)
	}
}

// check requires that the other person acts as no user who has proved the address, whatever they try.
func (h *history) check() {
	h.Clock.Add(time.Hour) // no limit counts against the tries
	refuse := func(how, userID string) {
		if h.proved[userID] {
			h.rt.Fatalf("%s of the other person acts as a user of the reader", how)
		}
	}
	refuse("the session", h.sessionOf(h.other.browser))
	for _, how := range []string{"the password", "the provider"} {
		b := h.Browser()
		if how == "the provider" {
			h.enter(h.other, b)
		} else {
			page := b.Get(h.URL + "/account")
			if r := b.Submit(page, "email", h.email, "password", h.other.password); r.IsCode() {
				h.enterCode(h.other, b, r)
			}
		}
		refuse(how, h.sessionOf(b))
	}
	for _, key := range h.other.keys {
		b := h.Browser()
		b.UsePasskey(b.Get(h.URL+"/account"), key)
		refuse("a passkey", h.sessionOf(b))
	}
	for _, token := range h.other.refresh {
		if r := h.app.Refresh(token); r.Status == http.StatusOK {
			refuse("a refresh token", h.Userinfo(r.Text("access_token")).Want(http.StatusOK).Text("sub"))
		}
	}
}

// TestOnlyWhoReadsMailActsAsWhoProvedTheAddress draws histories of two people, two organizations, a provider and an
// application, as many as -rapid.checks says, and a fifth of them on PostgreSQL.
func TestOnlyWhoReadsMailActsAsWhoProvedTheAddress(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := providertest.New(t, d)
		f.UseLocalhost()
		app, provider := f.NewApp(providertest.Confidential), f.NewStranger()
		drawn, proved, shared := 0, 0, 0
		rapid.Check(t, func(rt *rapid.T) {
			early, late := rapid.IntRange(0, 6).Draw(rt, "early"), rapid.IntRange(0, 8).Draw(rt, "late")
			if drawn++; d.Dialect() == db.Postgres && drawn%5 != 0 {
				return
			}
			h := &history{
				Fixture: f, rt: rt, email: fmt.Sprintf("u%d@corp.example", drawn), orgs: [2]string{f.OrgID, f.NewOrg()},
				app: app, provider: provider, proved: map[string]bool{},
			}
			h.reader, h.other = h.newPerson("reader", drawn), h.newPerson("other person", drawn)
			owner := &auth.Caller{OrgID: h.orgs[1], UserID: "usr_other", Role: auth.Owner}
			var err error
			h.upstream, err = f.Provider.Upstreams.Store.Create(auth.With(t.Context(), owner), owner, provider.Settings())
			providertest.Must(t, err)
			h.mails = h.pick(5, "mails") > 0
			h.invite()
			held := map[string]bool{} // users as whom the other person has acted
			for i := range early + late {
				h.step(i < early)
				held[h.sessionOf(h.other.browser)] = true
			}
			if h.mails {
				h.mailReset()
				for _, l := range h.reader.links {
					h.use(h.reader, l)
				}
			}
			if len(h.proved) > 0 {
				h.check()
			}
			for userID := range h.proved {
				proved++
				if held[userID] {
					shared++
				}
			}
		})
		t.Logf("%d histories, %d users who have proved the address, of whom the other person had acted as %d", drawn, proved, shared)
	})
}

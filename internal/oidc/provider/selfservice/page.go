// Package selfservice owns the account page, on which users see and change everything that belongs to
// them: profile, password, passkeys, authenticator app, linked providers, applications, API keys and
// sessions.
//
// Its sections fill in the page. Each section is a component with its own forms, and shows the page
// again after a change.
package selfservice

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/logout"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/session"
	"steward/internal/oidc/provider/signin"
	"steward/internal/page"
	"steward/internal/stamp"
)

// Page is the account page.
type Page struct {
	Now      func() time.Time
	SignIn   *signin.Handler
	Sessions *session.Manager
	Flows    *flow.Sealer
	Pages    *pages.Renderer
	// Sections has all parts of the page.
	Sections []Section
}

// Section is a part of the account page.
type Section interface {
	// fill adds the section's content.
	fill(v visit, view *pages.Account) error
}

type visit struct {
	*http.Request
	session *session.Session
	user    *account.User
}

// SignedIn returns the handler for a page that requires a signed-in user. Everybody else sees the
// sign-in page first and continues to the account page.
func (p *Page) SignedIn(next func(w http.ResponseWriter, v visit) error) pages.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		s, user, err := p.Sessions.SignedIn(r)
		if err != nil {
			return err
		}
		if s == nil {
			return p.SignIn.ShowSignIn(w, r, p.Flows.ToPath(oauth.PathAccount), "")
		}
		if err := checkConfined(r, s); err != nil {
			return err
		}
		return next(w, visit{r, s, user})
	}
}

// SignedInRecently is SignedIn for API keys and for changes to how a user signs in, so that nobody can
// make them at a browser that was left open. A user who signed in longer ago signs in again.
func (p *Page) SignedInRecently(next func(w http.ResponseWriter, v visit) error) pages.Handler {
	return p.SignedIn(func(w http.ResponseWriter, v visit) error {
		if p.isRecent(v) {
			return next(w, v)
		}
		return p.showSignInAgain(w, v)
	})
}

func (p *Page) isRecent(v visit) bool { return v.session.Recent(p.Now()) }

// showSignInAgain renders the sign-in page. After it, the user returns to the requested page, or to the
// account page if the request was a form.
func (p *Page) showSignInAgain(w http.ResponseWriter, v visit) error {
	next := oauth.PathAccount
	if v.Method == http.MethodGet {
		next = v.URL.Path
	}
	f := p.Flows.ToPath(next)
	f.Again = true
	return p.SignIn.Show(w, v.Request, http.StatusForbidden, signin.Form{
		Flow: f, Email: v.user.Email,
		Problem: "This needs a sign-in of the last ten minutes.",
	})
}

// Account serves GET /account.
func (p *Page) Account(w http.ResponseWriter, v visit) error {
	return p.show(w, v, http.StatusOK, pages.Account{})
}

// show renders the account page. The view has the form's content, if one was sent.
func (p *Page) show(w http.ResponseWriter, v visit, status int, view pages.Account) error {
	view.Email = v.user.Email
	view.Upstream = v.session.OrgID != ""
	for _, s := range p.Sections {
		if err := s.fill(v, &view); err != nil {
			return err
		}
	}
	return p.Pages.Render(w, v.Request, status, &view)
}

// showProblem renders the account page with the problem in the form that was sent.
func (p *Page) showProblem(w http.ResponseWriter, v visit, status int, problem string) error {
	var view pages.Account
	view.Problem = problem
	return p.show(w, v, status, view)
}

// toAccount sends the browser to the account page after a change.
func toAccount(w http.ResponseWriter, v visit) error {
	http.Redirect(w, v.Request, oauth.PathAccount, http.StatusSeeOther)
	return nil
}

func date(t stamp.Time) string { return t.Std().Format("2 January 2006") }

// errConfined refuses a user who has signed in with an organization's provider.
var errConfined = &oauth.Error{
	Status: http.StatusForbidden, Code: oauth.AccessDenied,
	Description: "you have signed in with the provider of an organization: sign in with a password or a passkey to do this",
}

// confinedPaths lists the pages and forms for a session that opens only one organization. It leaves out
// everything that changes how a user signs in, since that would open the user's other organizations to
// whoever manages the provider.
var confinedPaths = []string{
	oauth.PathAccount, oauth.PathAccountProfile, oauth.PathAccountSessions, oauth.PathAccountSignOut, oauth.PathAccountApps,
	oauth.PathAccountKeys, oauth.PathAccountKeyDelete,
}

// checkConfined returns errConfined if a session may not use a page or a form.
func checkConfined(r *http.Request, s *session.Session) error {
	if s.OrgID == "" || slices.Contains(confinedPaths, r.URL.Path) {
		return nil
	}
	return errConfined
}

const actionProfile = "user.update"

// Profile is the section that describes the user.
type Profile struct {
	*Page
	DB       *db.DB
	Accounts *account.Store
}

func (s *Profile) fill(v visit, view *pages.Account) error {
	view.FirstName = v.user.FirstName
	view.LastName = v.user.LastName
	view.PhotoURL = v.user.PhotoURL
	return nil
}

// Change serves POST /account/profile.
func (s *Profile) Change(w http.ResponseWriter, v visit) error {
	p := account.UserProfile{
		FirstName: strings.TrimSpace(v.PostForm.Get("first_name")),
		LastName:  strings.TrimSpace(v.PostForm.Get("last_name")),
		PhotoURL:  strings.TrimSpace(v.PostForm.Get("photo_url")),
	}
	if problem := p.Problem(); problem != "" {
		return s.showProblem(w, v, http.StatusBadRequest, problem)
	}
	err := s.DB.Write(v.Context(), func(tx *db.Tx) error {
		if err := s.Accounts.SetProfile(tx, v.user.ID, p); err != nil {
			return err
		}
		return s.Accounts.Audit.RecordUser(tx, actionProfile, v.user.ID, v.user.ID)
	})
	if err != nil {
		return err
	}
	return toAccount(w, v)
}

// maxListed caps the applications and the API keys that the account page lists.
const maxListed = 100

// Apps is the section with the applications that a user has allowed something, in all organizations
// that the session opens.
type Apps struct {
	*Page
	Clients *oidc.Store
}

func (s *Apps) fill(v visit, view *pages.Account) error {
	consents, err := s.Clients.Own(v.Context(), v.user.ID, v.session.OrgID, page.Paging{Limit: maxListed})
	if err != nil {
		return err
	}
	for _, c := range consents.Items {
		app := pages.App{ID: c.ClientID, Name: c.ClientName, Since: date(c.CreatedAt)}
		if u, err := url.Parse(c.ClientHomepageURL); err == nil {
			app.Homepage = u.Host
		}
		for _, name := range c.Scopes {
			app.Scopes = append(app.Scopes, scopeTitle(name))
		}
		view.Apps = append(view.Apps, app)
	}
	return nil
}

// scopeTitle returns a scope's title on the consent page.
func scopeTitle(name string) string {
	if s, ok := oidc.ScopeNamed(name); ok {
		return s.ConsentTitle
	}
	return name
}

// Disconnect serves POST /account/apps: it revokes the user's consent to an application, which ends the
// application's tokens.
func (s *Apps) Disconnect(w http.ResponseWriter, v visit) error {
	client, err := s.Clients.Lookup(v.Context(), v.PostForm.Get("client"))
	if errs.KindOf(err) == errs.NotFound {
		return toAccount(w, v)
	}
	if err != nil {
		return err
	}
	if !v.session.Opens(client.OrgID) {
		return errConfined
	}
	ctx := auth.With(v.Context(), &auth.Caller{UserID: v.user.ID, OrgID: client.OrgID})
	err = s.Clients.RevokeConsent(ctx, client.ID, v.user.ID, "")
	if err != nil && errs.KindOf(err) != errs.NotFound { // it may be gone already
		return err
	}
	return toAccount(w, v)
}

// Sessions is the section with the browsers in which a user is signed in.
type Sessions struct {
	*Page
	DB           *db.DB
	FrontChannel *logout.FrontChannel
}

func (s *Sessions) fill(v visit, view *pages.Account) error {
	list, err := s.Page.Sessions.List(v.Context(), v.user.ID)
	if err != nil {
		return err
	}
	const layout = "2 January 2006, 15:04"
	for _, one := range list {
		view.Sessions = append(view.Sessions, pages.Session{
			ID: one.ID, Address: one.RemoteAddr, Current: one.ID == v.session.ID,
			Agent: cmp.Or(pages.BrowserName(one.UserAgent), one.UserAgent, "Unknown browser"),
			Since: one.CreatedAt.Std().Format(layout), Seen: one.LastSeenAt.Std().Format(layout),
		})
	}
	return nil
}

// End serves POST /account/sessions: it ends one of the user's sessions, which may be the current one.
func (s *Sessions) End(w http.ResponseWriter, v visit) error {
	if sessionID := v.PostForm.Get("session"); sessionID != v.session.ID {
		if err := s.Page.Sessions.Remove(v.Context(), v.user.ID, sessionID); err != nil {
			return err
		}
		return toAccount(w, v)
	}
	frames, err := s.FrontChannel.Frames(v.Context(), v.session)
	if err != nil {
		return err
	}
	if err := s.Page.Sessions.End(v.Context(), w, v.session); err != nil {
		return err
	}
	return s.Pages.Render(w, v.Request, http.StatusOK, &pages.SignedOut{
		Title: "You are signed out", Text: "You can close this page.", Frames: frames,
	})
}

// SignOutEverywhere serves POST /account/sign-out: it ends all of the user's sessions, and the access
// of applications and devices without a session.
func (s *Sessions) SignOutEverywhere(w http.ResponseWriter, v visit) error {
	frames, err := s.FrontChannel.Frames(v.Context(), v.session)
	if err != nil {
		return err
	}
	err = s.DB.Write(v.Context(), func(tx *db.Tx) error { return signin.SignOut(tx, v.user.ID, "", s.Now()) })
	if err != nil {
		return err
	}
	if err := s.Page.Sessions.End(v.Context(), w, nil); err != nil {
		return err
	}
	return s.Pages.Render(w, v.Request, http.StatusOK, &pages.SignedOut{
		Title:  "You are signed out everywhere",
		Text:   "Applications and devices must ask you to sign in again. You can close this page.",
		Frames: frames,
	})
}

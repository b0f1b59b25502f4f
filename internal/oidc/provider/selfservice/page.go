// Package selfservice owns the account page, on which users see and change everything that belongs to
// them: profile, password, passkeys, authenticator app, linked providers, applications, API keys and
// sessions.
//
// Its sections fill in the page. Each section is a component with its own forms, and shows the page
// again after a change.
package selfservice

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/session"
	"steward/internal/oidc/provider/signin"
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

package selfservice

import (
	"net/http"
	"net/url"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/pages"
	"steward/internal/page"
)

// maxListed bounds how many applications, and how many API keys, the account page lists.
const maxListed = 100

// Apps is the section with the applications that have the user's consent, in all organizations that the
// session opens.
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

// scopeTitle returns the name that the consent page uses for a scope.
func scopeTitle(name string) string {
	if s, ok := oidc.ScopeNamed(name); ok {
		return s.ConsentTitle
	}
	return name
}

// Disconnect serves POST /account/apps. It withdraws the user's consent for an application, which ends
// its tokens.
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

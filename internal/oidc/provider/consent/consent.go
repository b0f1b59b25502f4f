// Package consent owns the page on which a user decides what a client may do, and what becomes of the
// decision. The authorization endpoint and the device page both show it.
package consent

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"steward/internal/oidc"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/users"
)

// Page is the consent page.
type Page struct {
	Clients *oidc.Store
	Pages   *pages.Renderer
}

// Missing returns the requested scopes that the user must be asked for: those that are not in the given
// consent, or all of them if the user must be asked again. The consent is nil if there is none.
func Missing(requested []string, given *oidc.Consent, again bool) []string {
	if again || given == nil {
		return requested
	}
	return slices.DeleteFunc(slices.Clone(requested), func(s string) bool { return slices.Contains(given.Scopes, s) })
}

// Show renders the page for a client, a user and the scopes to ask for. The view has the target and
// the hidden fields of the form.
func (p *Page) Show(
	w http.ResponseWriter, r *http.Request, view pages.Consent, c *oidc.Registered, user *users.User, scopes []string,
) error {
	view.Client = c.Name
	view.Email = user.Email
	view.Initial = initial(c.Name)
	if u, err := url.Parse(c.HomepageURL); err == nil {
		view.Homepage = u.Host
	}
	for _, s := range oidc.Scopes() {
		if slices.Contains(scopes, s.Name) {
			view.Scopes = append(view.Scopes, s)
		}
	}
	return p.Pages.Render(w, r, http.StatusOK, &view)
}

// initial returns the first letter of a name, as a placeholder for an icon.
func initial(name string) string {
	letters := []rune(strings.TrimSpace(name) + "?")
	return strings.ToUpper(string(letters[0]))
}

// Approved reports whether the user has approved in the form of a request.
func Approved(r *http.Request) bool { return r.PostForm.Get("action") == "approve" }

// Save stores the decision in the form of a request: the scopes that the user was asked for and has
// checked are granted, the others declined. It returns the granted ones of the requested scopes. If
// there are none, it stores nothing.
func (p *Page) Save(
	r *http.Request, c *oidc.Registered, userID string, requested []string, again bool,
) (granted []string, saved *oidc.Consent, err error) {
	given, err := p.Clients.Consent(r.Context(), c.ID, userID)
	if err != nil {
		return nil, nil, err
	}
	asked := Missing(requested, given, again)
	checked := r.PostForm["scope"]
	var declined []string
	for _, s := range requested {
		if slices.Contains(asked, s) && !slices.Contains(checked, s) && !required(s) {
			declined = append(declined, s)
		} else {
			granted = append(granted, s)
		}
	}
	if len(granted) == 0 {
		return nil, nil, nil
	}
	consent, err := p.Clients.SaveConsent(r.Context(), c.ID, userID, granted, declined)
	if err != nil {
		return nil, nil, err
	}
	return granted, &consent, nil
}

// required reports whether a user cannot decline a scope without declining the whole request.
func required(name string) bool {
	s, ok := oidc.ScopeNamed(name)
	return ok && s.Required
}

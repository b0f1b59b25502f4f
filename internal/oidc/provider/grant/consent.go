package grant

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"steward/internal/account"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/pages"
)

// ConsentPage lets a user decide on a client's request. The authorization endpoint and the device page
// both show it.
type ConsentPage struct {
	Clients  *oidc.Store
	Pages    *pages.Renderer
	Accounts *account.Store
}

// Ask selects the requested scopes that we ask a user about.
type Ask int

const (
	// AskNew asks for scopes that the user has neither granted nor declined.
	AskNew Ask = iota
	// AskAgain asks for all scopes except the ones the user has declined.
	AskAgain
	// AskAll asks for all scopes.
	AskAll
)

// ConsentRequest is a client's request for scopes, which a user decides on.
type ConsentRequest struct {
	Client *oidc.Registered
	User   *account.User
	Scopes []string
	// Given is the earlier consent; nil if there is none.
	Given *oidc.Consent
	Ask   Ask
}

// Asked returns the requested scopes that we must ask the user about. If the user has declined all of
// them, there is nothing to grant, so we ask about all.
func (q ConsentRequest) Asked() []string {
	if q.Given == nil || q.Ask == AskAll {
		return q.Scopes
	}
	granted := q.Granted()
	asked := slices.DeleteFunc(slices.Clone(q.Scopes), func(s string) bool {
		return slices.Contains(q.Given.Declined, s) || q.Ask == AskNew && slices.Contains(granted, s)
	})
	if len(asked) == 0 && len(granted) == 0 {
		return q.Scopes
	}
	return asked
}

// Granted returns the requested scopes that the earlier consent grants.
func (q ConsentRequest) Granted() []string {
	return slices.DeleteFunc(slices.Clone(q.Scopes), func(s string) bool { return !slices.Contains(q.Given.Scopes, s) })
}

// Show renders the page with the scopes to ask about. The view has the form's target and hidden fields,
// and the redirect URI.
func (p *ConsentPage) Show(w http.ResponseWriter, r *http.Request, view pages.Consent, q ConsentRequest) error {
	c := q.Client
	org, err := p.Accounts.OrgName(r.Context(), c.OrgID)
	if err != nil {
		return err
	}
	view.Client = c.Name
	view.Org = org
	view.Registered = c.Registration != ""
	if c.DocumentURI != nil {
		if u, err := url.Parse(*c.DocumentURI); err == nil {
			view.Document = u.Host
		}
	}
	view.Email = q.User.Email
	view.Initial = initial(c.Name)
	if u, err := url.Parse(c.HomepageURL); err == nil {
		view.Homepage = u.Host
	}
	asked := q.Asked()
	for _, s := range oidc.Scopes() {
		if slices.Contains(asked, s.Name) {
			view.Scopes = append(view.Scopes, s)
		}
	}
	return p.Pages.Render(w, r, http.StatusOK, &view)
}

// initial returns a name's first letter, as a placeholder for an icon.
func initial(name string) string {
	letters := []rune(strings.TrimSpace(name) + "?")
	return strings.ToUpper(string(letters[0]))
}

// Approved reports whether the user has approved in a request's form.
func Approved(r *http.Request) bool { return r.PostForm.Get("action") == "approve" }

// Save stores the user's decision. It grants the scopes that the user has checked, declines the others
// we asked about, and returns the requested scopes that are granted. If there are none, it stores
// nothing.
func (p *ConsentPage) Save(r *http.Request, q ConsentRequest) (granted []string, saved *oidc.Consent, err error) {
	asked := q.Asked()
	checked := r.PostForm["scope"]
	var declined []string
	for _, s := range q.Scopes {
		switch {
		case slices.Contains(checked, s) || required(s):
			granted = append(granted, s)
		case slices.Contains(asked, s):
			declined = append(declined, s)
		case slices.Contains(q.Given.Scopes, s): // not asked about, so there is a consent
			granted = append(granted, s)
		}
	}
	if len(granted) == 0 {
		return nil, nil, nil
	}
	consent, err := p.Clients.SaveConsent(r.Context(), q.Client.ID, q.User.ID, granted, declined)
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

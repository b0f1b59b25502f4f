package authorize

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/clientauth"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/web"
)

// paramOrganization names the organization for which a client acts, if a document describes the client.
// The page on which the user chooses one adds it to the request.
const paramOrganization = "organization"

// documented returns the client that the document at a URI describes, in one of the user's
// organizations. It requests the document only for signed-in users. It returns nil if it has sent the
// browser a page instead, which then repeats the request.
func (h *Handler) documented(w http.ResponseWriter, r *http.Request, form url.Values, uri string) (*oidc.Registered, error) {
	if h.Documents == nil {
		return nil, clientauth.ErrUnknown
	}
	again := oauth.PathAuthorize + "?" + form.Encode()
	if len(again) > maxParams {
		return nil, oauth.NewError(oauth.InvalidRequest, "the request is too large")
	}
	if r.Method == http.MethodPost { // a POST from another site does not carry the session's cookie
		http.Redirect(w, r, again, http.StatusSeeOther)
		return nil, nil
	}
	s, user, err := h.Sessions.SignedIn(r)
	if err != nil {
		return nil, err
	}
	if user == nil && slices.Contains(strings.Fields(form.Get("prompt")), flow.PromptNone) {
		return nil, oauth.NewError(oauth.LoginRequired, "the user is not signed in")
	}
	if user == nil {
		return nil, h.SignIn.ShowSignIn(w, r, h.Flows.ToPath(again), form.Get("login_hint"))
	}
	orgs, err := h.Clients.OrgsOf(r.Context(), user.ID)
	if err != nil {
		return nil, err
	}
	chosen := form.Get(paramOrganization)
	orgs = slices.DeleteFunc(orgs, func(orgID string) bool { return !s.Opens(orgID) || chosen != "" && orgID != chosen })
	switch len(orgs) {
	case 0:
		return nil, oauth.NewError(oauth.AccessDenied, "the user does not belong to the organization")
	case 1:
		return h.readDocument(r, orgs[0], user.ID, uri)
	}
	return nil, h.showOrganizations(w, r, orgs, form)
}

// showOrganizations asks the user which organization the client acts for.
func (h *Handler) showOrganizations(w http.ResponseWriter, r *http.Request, orgs []string, form url.Values) error {
	view := &pages.Organizations{Action: oauth.PathAuthorize, Params: form}
	for _, orgID := range orgs {
		name, err := h.Consents.Accounts.OrgName(r.Context(), orgID)
		if err != nil {
			return err
		}
		view.Orgs = append(view.Orgs, pages.Org{ID: orgID, Name: name})
	}
	return h.Pages.Render(w, r, http.StatusOK, view)
}

// readDocument returns the organization's client that the document at a URI describes.
func (h *Handler) readDocument(r *http.Request, orgID, userID, uri string) (*oidc.Registered, error) {
	ctx := r.Context()
	c, fresh, err := h.Clients.Documented(ctx, orgID, uri)
	if fresh || err != nil && errs.KindOf(err) != errs.NotFound {
		return c, err
	}
	if h.throttle.Take(h.Now(), documentLimits(userID, uri)...) > 0 {
		return nil, documentError(http.StatusTooManyRequests, oauth.Unavailable, "too many applications were looked up; try again later")
	}
	d, err := h.Documents.Document(ctx, orgID, uri)
	if errors.Is(err, clientauth.ErrDocument) {
		web.Log(ctx).Info("a Client ID Metadata Document was not read", "client", uri, "error", err)
		return nil, documentError(http.StatusBadRequest, oauth.InvalidClient,
			"the document that describes this application, its client_id, cannot be read")
	}
	if err == nil {
		c, err = h.Clients.StoreDocument(ctx, orgID, userID, d)
	}
	var known *errs.Error
	switch {
	case !errors.As(err, &known):
		return c, err
	case known.Kind == errs.Invalid:
		return nil, documentError(http.StatusBadRequest, oauth.InvalidClient,
			"the document that describes this application is not valid: "+faults(known))
	case known.Kind == errs.RateLimited:
		return nil, documentError(http.StatusTooManyRequests, oauth.Unavailable, known.Message)
	}
	return nil, err
}

func documentError(status int, code, description string) *oauth.Error {
	return &oauth.Error{Status: status, Code: code, Description: description}
}

// documentLimits limits how often a user makes us request documents, and how often we request them from
// one host.
func documentLimits(userID, uri string) []oauth.Limit {
	limits := []oauth.Limit{{Key: "document of " + userID, Burst: 10, Every: 30 * time.Second}}
	if u, err := url.Parse(uri); err == nil {
		limits = append(limits, oauth.Limit{Key: "document at " + strings.ToLower(u.Hostname()), Burst: 30, Every: 2 * time.Second})
	}
	return limits
}

// faults describes a document's faults to its author.
func faults(e *errs.Error) string {
	var described []string
	for _, f := range e.Faults {
		described = append(described, strings.TrimPrefix(f.Location, "body.")+": "+f.Message)
	}
	return strings.Join(described[:min(len(described), 5)], "; ")
}

package signin

import (
	"net/http"
	"slices"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/session"
	"steward/internal/oidc/upstream"
)

// The actions in the audit log.
const (
	actionLink   = "user.link"
	actionUnlink = "user.unlink"
)

// errConfined is returned to a user who has signed in with the provider of an organization.
var errConfined = &oauth.Error{
	Status: http.StatusForbidden, Code: oauth.AccessDenied,
	Description: "you have signed in with the provider of an organization: sign in with a password or a passkey to do this",
}

// confinedForms are the forms of the account page that a session which opens one organization may send. What
// changes how a user signs in is not among them, since it would open the user's other organizations to
// whoever manages the provider.
var confinedForms = []string{
	oauth.PathAccountProfile, oauth.PathAccountSessions, oauth.PathAccountSignOut, oauth.PathAccountApps,
	oauth.PathAccountKeys, oauth.PathAccountKeyDelete,
}

// checkConfined returns errConfined for a form that a session may not send.
func checkConfined(r *http.Request, s *session.Session) error {
	if s.OrgID == "" || r.Method != http.MethodPost || slices.Contains(confinedForms, r.URL.Path) {
		return nil
	}
	return errConfined
}

// providers returns the providers of a user's organizations, with whether the user has linked them.
func (h *Handler) providers(v visit) (shown []pages.Provider, err error) {
	if h.Upstreams == nil {
		return nil, nil
	}
	memberships, err := h.Users.Memberships(v.Context(), v.user.ID)
	if err != nil {
		return nil, err
	}
	identities, err := h.Upstreams.Store.Identities(v.Context(), v.user.ID)
	if err != nil {
		return nil, err
	}
	for _, m := range memberships {
		list, err := h.Upstreams.Store.Enabled(v.Context(), m.OrgID)
		if err != nil {
			return nil, err
		}
		for _, u := range list {
			linked := slices.ContainsFunc(identities, func(i upstream.Identity) bool {
				return i.Linked && i.OrgID == u.OrgID && i.Issuer == u.Issuer
			})
			shown = append(shown, pages.Provider{ID: u.ID, Name: u.Name, Org: m.OrgName, Linked: linked})
		}
	}
	return shown, nil
}

// ownUpstream returns the provider of the form, which must belong to an organization of the user.
func (h *Handler) ownUpstream(v visit) (upstream.Upstream, error) {
	u, err := h.upstream(v.Context(), v.PostForm.Get("upstream"))
	if err != nil {
		return upstream.Upstream{}, err
	}
	_, err = h.Users.Role(v.Context(), u.OrgID, v.user.ID)
	if errs.KindOf(err) == errs.NotFound {
		return upstream.Upstream{}, errNoUpstream
	}
	return u, err
}

// LinkUpstream serves POST /account/upstream: it sends the user to a provider to link the account there.
func (h *Handler) LinkUpstream(w http.ResponseWriter, v visit) error {
	u, err := h.ownUpstream(v)
	if err != nil {
		return err
	}
	return h.leave(w, v.Request, u, visitToProvider{
		Flow: h.Flows.ToPath(oauth.PathAccount), Session: v.session.ID, Attempt: h.Upstreams.Client.NewAttempt(false),
	})
}

// link stores that an identity belongs to the user of a session, which must still be that of the browser.
func (h *Handler) link(w http.ResponseWriter, r *http.Request, sessionID string, i upstream.Identity) error {
	s, user, err := h.Sessions.SignedIn(r)
	if err != nil {
		return err
	}
	if s == nil || s.ID != sessionID || s.OrgID != "" {
		return errOtherBrowser
	}
	i.UserID = user.ID
	i.Linked = true
	err = h.DB.Write(r.Context(), func(tx *db.Tx) error {
		standing, err := h.Upstreams.Standing(tx, i.OrgID, user.ID)
		if err != nil {
			return err
		}
		if !standing.Member || standing.Disabled {
			return errNoUpstream
		}
		if err := h.Upstreams.Store.AddIdentity(tx, i); err != nil {
			return err
		}
		if err := h.notify(tx, user.ID, NoticeIdentity); err != nil {
			return err
		}
		return h.Users.Audit(tx, actionLink, user.ID, user.ID)
	})
	v := visit{r, s, user}
	if errs.KindOf(err) == errs.Conflict {
		return h.showProblem(w, v, http.StatusConflict, "This account at the provider belongs to another user.")
	}
	if err != nil {
		return err
	}
	return toAccount(w, v)
}

// UnlinkUpstream serves POST /account/upstream/unlink.
func (h *Handler) UnlinkUpstream(w http.ResponseWriter, v visit) error {
	u, err := h.ownUpstream(v)
	if err != nil {
		return err
	}
	err = h.DB.Write(v.Context(), func(tx *db.Tx) error {
		removed, err := h.Upstreams.Store.RemoveIdentities(tx, v.user.ID, u.OrgID, u.Issuer)
		if err != nil || !removed {
			return err
		}
		return h.Users.Audit(tx, actionUnlink, v.user.ID, v.user.ID)
	})
	if err != nil {
		return err
	}
	return toAccount(w, v)
}

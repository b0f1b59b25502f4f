package selfservice

import (
	"net/http"
	"slices"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/mail"
	"steward/internal/oidc/provider/federation"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/upstream"
)

// Actions in the audit log.
const (
	actionLink   = "user.link"
	actionUnlink = "user.unlink"
)

// Providers is the section with the providers that the user's organizations use.
type Providers struct {
	*Page
	DB         *db.DB
	Accounts   *account.Store
	Federation *federation.Handler
}

// fill adds the providers that the user's organizations use, and marks the linked ones.
func (s *Providers) fill(v visit, view *pages.Account) error {
	memberships, err := s.Accounts.Memberships(v.Context(), v.user.ID)
	if err != nil {
		return err
	}
	identities, err := s.Federation.Upstreams.Store.Identities(v.Context(), v.user.ID)
	if err != nil {
		return err
	}
	for _, m := range memberships {
		list, err := s.Federation.Upstreams.Store.Enabled(v.Context(), m.OrgID)
		if err != nil {
			return err
		}
		for _, u := range list {
			linked := slices.ContainsFunc(identities, func(i upstream.Identity) bool {
				return i.Linked && i.OrgID == u.OrgID && i.Issuer == u.Issuer
			})
			view.Providers = append(view.Providers, pages.Provider{ID: u.ID, Name: u.Name, Org: m.OrgName, Linked: linked})
		}
	}
	return nil
}

// own returns the form's provider, which must belong to one of the user's organizations.
func (s *Providers) own(v visit) (upstream.Upstream, error) {
	u, err := s.Federation.Upstream(v.Context(), v.PostForm.Get("upstream"))
	if err != nil {
		return upstream.Upstream{}, err
	}
	_, err = s.Accounts.Role(v.Context(), u.OrgID, v.user.ID)
	if errs.KindOf(err) == errs.NotFound {
		return upstream.Upstream{}, federation.ErrNoUpstream
	}
	return u, err
}

// Link serves POST /account/upstream: it sends the user to a provider to link the account there.
func (s *Providers) Link(w http.ResponseWriter, v visit) error {
	u, err := s.own(v)
	if err != nil {
		return err
	}
	return s.Federation.StartLink(w, v.Request, u, v.session.ID)
}

// Linked gives an identity to a session's user. The browser must still have that session.
func (s *Providers) Linked(w http.ResponseWriter, r *http.Request, sessionID string, i upstream.Identity) error {
	current, user, err := s.Sessions.SignedIn(r)
	if err != nil {
		return err
	}
	if current == nil || current.ID != sessionID || current.OrgID != "" {
		return federation.ErrOtherBrowser
	}
	i.UserID = user.ID
	i.Linked = true
	err = s.DB.Write(r.Context(), func(tx *db.Tx) error {
		standing, err := s.Accounts.Standing(tx, i.OrgID, user.ID)
		if err != nil {
			return err
		}
		if !standing.Member || standing.Disabled {
			return federation.ErrNoUpstream
		}
		if err := s.Federation.Upstreams.Store.PutIdentity(tx, i); err != nil {
			return err
		}
		return s.Accounts.Changed(tx, user.ID, actionLink, mail.IdentityLinked)
	})
	v := visit{r, current, user}
	if errs.KindOf(err) == errs.Conflict {
		return s.showProblem(w, v, http.StatusConflict, "This account at the provider belongs to another user.")
	}
	if err != nil {
		return err
	}
	return toAccount(w, v)
}

// Unlink serves POST /account/upstream/unlink.
func (s *Providers) Unlink(w http.ResponseWriter, v visit) error {
	u, err := s.own(v)
	if err != nil {
		return err
	}
	err = s.DB.Write(v.Context(), func(tx *db.Tx) error {
		removed, err := s.Federation.Upstreams.Store.RemoveIdentities(tx, v.user.ID, u.OrgID, u.Issuer)
		if err != nil || !removed {
			return err
		}
		return s.Accounts.Changed(tx, v.user.ID, actionUnlink, mail.IdentityUnlinked)
	})
	if err != nil {
		return err
	}
	return toAccount(w, v)
}

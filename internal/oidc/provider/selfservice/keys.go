package selfservice

import (
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"steward/internal/account"
	"steward/internal/apikey"
	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/name"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/page"
	"steward/internal/stamp"
)

const maxKeyName = 256

// lifetimes are the key lifetimes that the page offers, by their value in the form.
var lifetimes = map[string]time.Duration{
	"30d": 30 * 24 * time.Hour, "90d": 90 * 24 * time.Hour, "365d": 365 * 24 * time.Hour, "never": 0,
}

// Keys is the section with the user's API keys.
type Keys struct {
	*Page
	Accounts *account.Store
	APIKeys  *apikey.Store
}

// fill adds the organizations that let the user manage API keys, and the user's keys there.
func (s *Keys) fill(v visit, view *pages.Account) error {
	memberships, err := s.Accounts.Memberships(v.Context(), v.user.ID)
	if err != nil {
		return err
	}
	for _, m := range memberships {
		caller := &auth.Caller{UserID: v.user.ID, OrgID: m.OrgID, Role: m.Role}
		if !caller.May(auth.WriteKeys) || !v.session.Opens(m.OrgID) {
			continue
		}
		view.Orgs = append(view.Orgs, pages.Org{ID: m.OrgID, Name: m.OrgName})
		if len(view.Keys) == maxListed {
			continue
		}
		own := apikey.Filter{UserID: caller.UserID}
		keys, err := s.APIKeys.List(v.Context(), caller.OrgID, own, page.Paging{Limit: maxListed - len(view.Keys)})
		if err != nil {
			return err
		}
		for _, k := range keys.Items {
			view.Keys = append(view.Keys, pageKey(m, k))
		}
	}
	return nil
}

func pageKey(m account.Membership, k apikey.Key) pages.Key {
	row := pages.Key{ID: k.ID, Name: k.Name, OrgID: m.OrgID, Org: m.OrgName, Created: date(k.CreatedAt)}
	if k.Project != nil {
		row.Project = k.Project.Name
	}
	if k.ExpiresAt != nil {
		row.Expires = date(*k.ExpiresAt)
	}
	if k.LastUsedAt != nil {
		row.Used = date(*k.LastUsedAt)
	}
	return row
}

// caller returns the user as a caller in the form's organization, with its name. It refuses users who may
// not manage API keys there.
func (s *Keys) caller(v visit) (caller *auth.Caller, orgName string, err error) {
	memberships, err := s.Accounts.Memberships(v.Context(), v.user.ID)
	if err != nil {
		return nil, "", err
	}
	for _, m := range memberships {
		caller := &auth.Caller{UserID: v.user.ID, OrgID: m.OrgID, Role: m.Role}
		if m.OrgID == v.PostForm.Get("org") && caller.May(auth.WriteKeys) && v.session.Opens(m.OrgID) {
			return caller, m.OrgName, nil
		}
	}
	return nil, "", &oauth.Error{
		Status: http.StatusForbidden, Code: oauth.AccessDenied,
		Description: "you may not manage API keys in this organization",
	}
}

// Create serves POST /account/keys. The key's value appears in this response and never again.
func (s *Keys) Create(w http.ResponseWriter, v visit) error {
	caller, orgName, err := s.caller(v)
	if err != nil {
		return err
	}
	keyName := strings.TrimSpace(v.PostForm.Get("name"))
	if !name.Valid(keyName) || utf8.RuneCountInString(keyName) > maxKeyName {
		return s.showProblem(w, v, http.StatusBadRequest, "Give the API key a name of at most 256 characters.")
	}
	lifetime, ok := lifetimes[v.PostForm.Get("lifetime")]
	if !ok {
		return s.showProblem(w, v, http.StatusBadRequest, "Choose when the API key expires.")
	}
	view := &pages.NewKey{Name: keyName, Org: orgName}
	asked := apikey.NewKey{Name: keyName}
	if lifetime > 0 {
		expires := stamp.Of(s.Now().Add(lifetime))
		asked.ExpiresAt = new(expires.String())
		view.Expires = date(expires)
	}
	key, err := asked.Build(caller, s.Now())
	if err != nil {
		return err
	}
	view.Value, err = s.APIKeys.Create(auth.With(v.Context(), caller), caller, key)
	if err != nil {
		return err
	}
	return s.Pages.Render(w, v.Request, http.StatusOK, view)
}

// Delete serves POST /account/keys/delete.
func (s *Keys) Delete(w http.ResponseWriter, v visit) error {
	caller, _, err := s.caller(v)
	if err != nil {
		return err
	}
	err = s.APIKeys.Delete(auth.With(v.Context(), caller), caller, v.PostForm.Get("key"), page.IfMatch{})
	if err != nil && errs.KindOf(err) != errs.NotFound { // it may be gone already
		return err
	}
	return toAccount(w, v)
}

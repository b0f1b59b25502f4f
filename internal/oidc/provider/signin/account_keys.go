package signin

import (
	"context"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/name"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/stamp"
)

// APIKey is an API key of a user.
type APIKey struct {
	ID         string
	Name       string
	Project    string // the name of the project to which it is confined, or ""
	CreatedAt  stamp.Time
	ExpiresAt  *stamp.Time
	LastUsedAt *stamp.Time
}

// APIKeys gives access to the API keys of a user in an organization. They belong to another part of
// Steward.
type APIKeys struct {
	// List returns the caller's own keys, newest first.
	List func(ctx context.Context, caller *auth.Caller, limit int) ([]APIKey, error)
	// Create creates a key that acts as the caller, and returns its value. It never expires if expires
	// is nil.
	Create func(ctx context.Context, caller *auth.Caller, name string, expires *stamp.Time) (value string, err error)
	// Delete deletes a key that the caller can see. It returns NotFound if there is none with this id.
	Delete func(ctx context.Context, caller *auth.Caller, keyID string) error
}

const maxKeyName = 256

// lifetimes are the lifetimes of a key that the page offers, by the value in its form.
var lifetimes = map[string]time.Duration{
	"30d": 30 * 24 * time.Hour, "90d": 90 * 24 * time.Hour, "365d": 365 * 24 * time.Hour, "never": 0,
}

// keys returns the organizations in which the user may manage API keys, and the user's keys there.
func (h *Handler) keys(v visit) (orgs []pages.Org, list []pages.Key, err error) {
	memberships, err := h.Users.Memberships(v.Context(), v.user.ID)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range memberships {
		caller := &auth.Caller{UserID: v.user.ID, OrgID: m.OrgID, Role: m.Role}
		if !caller.May(auth.WriteKeys) || !v.session.Opens(m.OrgID) {
			continue
		}
		orgs = append(orgs, pages.Org{ID: m.OrgID, Name: m.OrgName})
		if len(list) == maxListed {
			continue
		}
		keys, err := h.APIKeys.List(v.Context(), caller, maxListed-len(list))
		if err != nil {
			return nil, nil, err
		}
		for _, k := range keys {
			list = append(list, pageKey(m.OrgID, m.OrgName, k))
		}
	}
	return orgs, list, nil
}

func pageKey(orgID, orgName string, k APIKey) pages.Key {
	row := pages.Key{
		ID: k.ID, Name: k.Name, OrgID: orgID, Org: orgName, Project: k.Project, Created: date(k.CreatedAt),
	}
	if k.ExpiresAt != nil {
		row.Expires = date(*k.ExpiresAt)
	}
	if k.LastUsedAt != nil {
		row.Used = date(*k.LastUsedAt)
	}
	return row
}

// caller returns the user as a caller in the organization of the form, who may manage API keys there,
// and the organization's name.
func (h *Handler) caller(v visit) (caller *auth.Caller, orgName string, err error) {
	memberships, err := h.Users.Memberships(v.Context(), v.user.ID)
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

// CreateKey serves POST /account/keys. Its response is the only one with the value of the key.
func (h *Handler) CreateKey(w http.ResponseWriter, v visit) error {
	caller, orgName, err := h.caller(v)
	if err != nil {
		return err
	}
	keyName := strings.TrimSpace(v.PostForm.Get("name"))
	if !name.Valid(keyName) || utf8.RuneCountInString(keyName) > maxKeyName {
		return h.showProblem(w, v, http.StatusBadRequest, "Give the API key a name of at most 256 characters.")
	}
	lifetime, ok := lifetimes[v.PostForm.Get("lifetime")]
	if !ok {
		return h.showProblem(w, v, http.StatusBadRequest, "Choose when the API key expires.")
	}
	view := &pages.NewKey{Name: keyName, Org: orgName}
	var expires *stamp.Time
	if lifetime > 0 {
		expires = new(stamp.Of(h.Now().Add(lifetime)))
		view.Expires = date(*expires)
	}
	view.Value, err = h.APIKeys.Create(auth.With(v.Context(), caller), caller, keyName, expires)
	if err != nil {
		return err
	}
	return h.Pages.Render(w, v.Request, http.StatusOK, view)
}

// DeleteKey serves POST /account/keys/delete.
func (h *Handler) DeleteKey(w http.ResponseWriter, v visit) error {
	caller, _, err := h.caller(v)
	if err != nil {
		return err
	}
	err = h.APIKeys.Delete(auth.With(v.Context(), caller), caller, v.PostForm.Get("key"))
	if err != nil && errs.KindOf(err) != errs.NotFound { // it may be gone already
		return err
	}
	return toAccount(w, v)
}

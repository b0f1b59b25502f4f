package links

import (
	"context"
	"net/http"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/attempt"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/password"
	"steward/internal/oidc/provider/signin"
)

// Resets serves the links with which users who have lost their password set a new one, and has them mailed.
type Resets struct {
	DB        *db.DB
	Now       func() time.Time
	SignIn    *signin.Handler
	Users     signin.Directory
	Links     ResetLinks
	Flows     *flow.Sealer
	Pages     *pages.Renderer
	Passwords *password.Hasher
	Attempts  *attempt.Limiter
}

// ResetLinks gives access to the links, which belong to another part of Steward.
type ResetLinks struct {
	// Get returns the user who may set a new password with the token of a link. It returns NotFound if the
	// link was used or replaced, has expired, or never existed.
	Get func(ctx context.Context, token string) (oidc.User, error)
	// Use replaces the password of the user of a link, and voids the link. It reports whether the link was mailed.
	// It returns NotFound like Get.
	Use func(tx *db.Tx, token, hash string) (userID string, mailed bool, err error)
	// Mail is nil if no mail can be sent.
	Mail *ResetMail
}

// ResetMail has links mailed.
type ResetMail struct {
	// Problem returns what is wrong with an email address, as a sentence, or "".
	Problem func(email string) string
	// Request asks for a mail with a link to set a new password, to the user with an address. It does the same
	// whether or not there is one.
	Request func(tx *db.Tx, email string) error
}

// errReset is the same for links that never existed, were used or replaced, or have expired.
var errReset = &oauth.Error{
	Status: http.StatusNotFound, Code: oauth.InvalidRequest,
	Description: "this link was used or has expired: ask for a new one",
}

// Page serves GET /reset/{token}: a user who has lost the password sets a new one.
func (h *Resets) Page(w http.ResponseWriter, r *http.Request) error {
	user, err := h.user(w, r)
	if err != nil {
		return err
	}
	return h.show(w, r, user, "")
}

func (h *Resets) show(w http.ResponseWriter, r *http.Request, user oidc.User, problem string) error {
	view := &pages.Reset{Email: user.Email, Path: oauth.PathReset + r.PathValue("token"), MinPassword: h.Passwords.MinLength}
	return h.Pages.RenderForm(w, r, view, problem)
}

// user returns the user of the request's link, or errReset.
func (h *Resets) user(w http.ResponseWriter, r *http.Request) (oidc.User, error) {
	limit, err := h.Attempts.Link(w, r)
	if err != nil {
		return oidc.User{}, err
	}
	user, err := h.Links.Get(r.Context(), r.PathValue("token"))
	if errs.KindOf(err) == errs.NotFound {
		return oidc.User{}, errReset
	}
	if err != nil {
		return oidc.User{}, err
	}
	h.Attempts.Refund(limit)
	return user, nil
}

// Use serves POST /reset/{token}. It signs the user out everywhere, and in here.
func (h *Resets) Use(w http.ResponseWriter, r *http.Request) error {
	user, err := h.user(w, r)
	if err != nil {
		return err
	}
	refused, err := h.SignIn.RefusesPassword(r.Context(), user)
	if err != nil {
		return err
	}
	if refused {
		return h.show(w, r, user, signin.NoPassword)
	}
	password := r.PostForm.Get("password")
	if problem := h.Passwords.Problem(user.Email, password); problem != "" {
		return h.show(w, r, user, problem)
	}
	hash, err := h.Passwords.Hash(r.Context(), password)
	if err != nil {
		return err
	}
	f := h.Flows.ToPath(oauth.PathConsoleSignIn)
	err = h.SignIn.Complete(w, r, f, signin.Proof{
		Methods: oauth.Methods{oauth.MethodPassword}, PasswordHash: hash,
		Commit: func(tx *db.Tx) (string, error) {
			userID, mailed, err := h.Links.Use(tx, r.PathValue("token"), hash)
			if err != nil {
				return "", err
			}
			if mailed {
				f.Mailed = userID
			}
			if err := signin.SignOut(tx, userID, "", h.Now()); err != nil {
				return "", err
			}
			return userID, h.Users.Changed(tx, userID, signin.ActionPassword, signin.NoticePassword)
		},
	})
	if errs.KindOf(err) == errs.NotFound {
		return errReset // it was used in another request
	}
	return err
}

package links

import (
	"net/http"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/passkey"
	"steward/internal/oidc/provider/signin"
)

// Setup serves the link that a new installation's server prints. The first owner signs in with it.
type Setup struct {
	Installation *account.Setup
	SignIn       *signin.Handler
	Flows        *flow.Sealer
	Pages        *pages.Renderer
	Passwords    *signin.Hasher
	Passkeys     *passkey.Manager
	Attempts     *signin.Limiter
}

const (
	actionSetup = "user.setup"

	setupLinkProblem = "This link is not valid or has expired. " +
		"Run steward setup-link on the server, or start it again: both print a new one."
)

// Page serves GET /console/setup. The link has its token in the fragment, and the page's script moves
// it into the form.
func (h *Setup) Page(w http.ResponseWriter, r *http.Request) error {
	pending, err := h.Installation.Pending(r.Context())
	if err != nil {
		return err
	}
	if !pending {
		return h.showSetUp(w, r)
	}
	return h.showSetup(w, r, http.StatusOK, pages.Setup{})
}

func (h *Setup) showSetup(w http.ResponseWriter, r *http.Request, status int, view pages.Setup) error {
	view.MinPassword = account.MinPassword
	view.NoPasskeys = h.Passkeys.Unavailable()
	return h.Pages.Render(w, r, status, &view)
}

// showSetUp says that an installation cannot be set up again.
func (h *Setup) showSetUp(w http.ResponseWriter, r *http.Request) error {
	return h.Pages.Render(w, r, http.StatusGone, &pages.Message{
		Title: "This installation is set up", Text: "The link cannot be used again.",
		Next: oauth.PathConsole, NextText: "Open the console",
	})
}

// ShowHint says how to set an installation up.
func (h *Setup) ShowHint(w http.ResponseWriter, r *http.Request) error {
	return h.Pages.Render(w, r, http.StatusOK, &pages.Message{
		Title: "Set up Steward",
		Text: "Open the link that the server printed when it started, after the words “Set up”. " +
			"Run steward setup-link on the server to see it again.",
		Next: oauth.PathConsole, NextText: "Sign in, if you have an account",
	})
}

// Password serves POST /console/setup: it completes the first owner and signs them in.
func (h *Setup) Password(w http.ResponseWriter, r *http.Request) error {
	choice, shown, err := h.checkSetup(w, r)
	if err != nil || shown {
		return err
	}
	password := r.PostForm.Get("password")
	if problem := account.PasswordProblem(choice.Email, password); problem != "" {
		return h.showSetupProblem(w, r, choice, problem)
	}
	hash, err := h.Passwords.Hash(r.Context(), password)
	if err != nil {
		return err
	}
	return h.completeSetup(w, r, choice, signin.Proof{
		Methods: oauth.Methods{oauth.MethodPassword}, PasswordHash: hash,
	}, func(tx *db.Tx) (string, error) {
		return h.Installation.Complete(tx, choice.Token, firstAccount(choice), hash)
	})
}

// checkSetup returns the choices in the setup form. If they cannot be used, it shows why.
func (h *Setup) checkSetup(w http.ResponseWriter, r *http.Request) (c pages.SetupChoice, shown bool, err error) {
	c = pages.SetupChoice{
		Token: r.PostForm.Get("token"), Email: strings.TrimSpace(r.PostForm.Get("email")),
		Org: strings.TrimSpace(r.PostForm.Get("organization")),
	}
	limit := oauth.Limit{Key: "setup " + signin.Network(r), Burst: 30, Every: 10 * time.Second}
	if wait := h.Attempts.Take(limit); wait > 0 {
		signin.SetRetryAfter(w, wait)
		view := pages.Setup{SetupChoice: c}
		view.Problem = signin.TooMany
		return c, true, h.showSetup(w, r, http.StatusTooManyRequests, view)
	}
	if err := h.Installation.Check(r.Context(), c.Token); err != nil {
		return c, true, h.refuseSetup(w, r, c, err)
	}
	h.Attempts.Refund(limit)
	if problem := firstAccount(c).Problem(); problem != "" {
		return c, true, h.showSetupProblem(w, r, c, problem)
	}
	return c, false, nil
}

func firstAccount(c pages.SetupChoice) account.FirstAccount {
	return account.FirstAccount{Email: c.Email, OrgName: c.Org}
}

// completeSetup signs the owner in, whom complete creates, and opens the console.
func (h *Setup) completeSetup(
	w http.ResponseWriter, r *http.Request, c pages.SetupChoice, p signin.Proof, complete func(*db.Tx) (userID string, err error),
) error {
	err := h.SignIn.Complete(w, r, h.Flows.ToPath(oauth.PathConsoleSignIn), p, func(tx *db.Tx) (string, error) {
		userID, err := complete(tx)
		if err != nil {
			return "", err
		}
		return userID, h.Installation.Store.Audit.RecordUser(tx, actionSetup, userID, userID)
	})
	if err != nil {
		return h.refuseSetup(w, r, c, err)
	}
	return nil
}

func (h *Setup) refuseSetup(w http.ResponseWriter, r *http.Request, c pages.SetupChoice, err error) error {
	switch errs.KindOf(err) {
	case errs.Conflict:
		return h.showSetUp(w, r)
	case errs.NotFound:
		c.Token = ""
		return h.showSetupProblem(w, r, c, setupLinkProblem)
	case errs.Invalid:
		return h.showSetupProblem(w, r, c, "Another user has this email address.")
	}
	return err
}

func (h *Setup) showSetupProblem(w http.ResponseWriter, r *http.Request, c pages.SetupChoice, problem string) error {
	view := pages.Setup{SetupChoice: c}
	view.Problem = problem
	return h.showSetup(w, r, http.StatusBadRequest, view)
}

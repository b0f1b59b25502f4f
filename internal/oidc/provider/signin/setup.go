package signin

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/web"
)

// FirstAccount is what the first owner of an installation chooses.
type FirstAccount struct{ Email, OrgName string }

// Setup completes the first owner of an installation by a link that its server prints. Accounts belong to
// another part of Steward, whose methods fill it.
type Setup struct {
	// Pending reports whether the installation is not set up yet.
	Pending func(ctx context.Context) (bool, error)
	// Check returns NotFound if the token of a link is not valid, and Conflict if the installation is set up.
	Check func(ctx context.Context, token string) error
	// Problem returns what is wrong with a choice, as a sentence, or "".
	Problem func(FirstAccount) string
	// Complete uses the token up and returns the owner. Besides the errors of Check it returns Invalid
	// if another user has the address.
	Complete func(tx *db.Tx, token string, a FirstAccount, passwordHash string) (userID string, err error)
}

const (
	actionSetup = "user.setup"

	setupLinkProblem = "This link is not valid or has expired. " +
		"Run steward setup-link on the server, or start it again: both print a new one."
)

// setupLimit is the limit for trying tokens that are not valid, from one address.
func setupLimit(address string) oauth.Limit {
	return oauth.Limit{Key: "setup " + oauth.Network(address), Burst: 30, Every: 10 * time.Second}
}

// SetupPage serves GET /console/setup. The token of the link is in its fragment, which the page's script
// moves into the form.
func (h *Handler) SetupPage(w http.ResponseWriter, r *http.Request) error {
	pending, err := h.Setup.Pending(r.Context())
	if err != nil {
		return err
	}
	if !pending {
		return h.showSetUp(w, r)
	}
	return h.showSetup(w, r, http.StatusOK, pages.Setup{})
}

func (h *Handler) showSetup(w http.ResponseWriter, r *http.Request, status int, view pages.Setup) error {
	view.MinPassword = h.Users.MinPassword
	return h.Pages.Render(w, r, status, &view)
}

// showSetUp says that an installation cannot be set up again.
func (h *Handler) showSetUp(w http.ResponseWriter, r *http.Request) error {
	return h.Pages.Render(w, r, http.StatusGone, &pages.Message{
		Title: "This installation is set up", Text: "The link cannot be used again.",
		Next: oauth.PathConsole, NextText: "Open the console",
	})
}

// ShowSetupHint says how an installation is set up.
func (h *Handler) ShowSetupHint(w http.ResponseWriter, r *http.Request) error {
	return h.Pages.Render(w, r, http.StatusOK, &pages.Message{
		Title: "Set up Steward",
		Text: "Open the link that the server printed when it started, after the words “Set up”. " +
			"Run steward setup-link on the server to see it again.",
		Next: oauth.PathConsole, NextText: "Sign in, if you have an account",
	})
}

// SetUp serves POST /console/setup: it completes the first owner, who is signed in then.
func (h *Handler) SetUp(w http.ResponseWriter, r *http.Request) error {
	form := pages.Setup{
		Token: r.PostForm.Get("token"), Email: strings.TrimSpace(r.PostForm.Get("email")),
		Org: strings.TrimSpace(r.PostForm.Get("organization")),
	}
	limit := setupLimit(web.Request(r.Context()).RemoteAddr)
	if wait := h.throttle.Take(h.Now(), limit); wait > 0 {
		setRetryAfter(w, wait)
		form.Problem = tooManyAttempts
		return h.showSetup(w, r, http.StatusTooManyRequests, form)
	}
	if err := h.Setup.Check(r.Context(), form.Token); err != nil {
		return h.refuseSetup(w, r, form, err)
	}
	h.throttle.Refund(limit)
	chosen := FirstAccount{Email: form.Email, OrgName: form.Org}
	password := r.PostForm.Get("password")
	form.Problem = cmp.Or(h.Setup.Problem(chosen), h.Users.PasswordProblem(form.Email, password))
	if form.Problem != "" {
		return h.showSetup(w, r, http.StatusBadRequest, form)
	}
	hash, err := h.hashPassword(r.Context(), password)
	if err != nil {
		return err
	}
	err = h.signIn(w, r, h.Flows.ToPath(oauth.PathConsoleSignIn), proof{
		methods: oauth.Methods{oauth.MethodPassword}, passwordHash: hash,
		commit: func(tx *db.Tx) (string, error) {
			userID, err := h.Setup.Complete(tx, form.Token, chosen, hash)
			if err != nil {
				return "", err
			}
			return userID, h.Users.Audit(tx, actionSetup, userID, userID)
		},
	})
	if err != nil {
		return h.refuseSetup(w, r, form, err)
	}
	return nil
}

// refuseSetup shows why an installation was not set up.
func (h *Handler) refuseSetup(w http.ResponseWriter, r *http.Request, form pages.Setup, err error) error {
	switch errs.KindOf(err) {
	case errs.Conflict:
		return h.showSetUp(w, r)
	case errs.NotFound:
		form.Token = ""
		form.Problem = setupLinkProblem
	case errs.Invalid:
		form.Problem = "Another user has this email address."
	default:
		return err
	}
	return h.showSetup(w, r, http.StatusBadRequest, form)
}

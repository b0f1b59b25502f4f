package signin

import (
	"errors"
	"net/http"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/mail"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/passkey"
)

// Passkey serves POST /sign-in/passkey: a user signs in with a passkey, which says who the user is.
func (h *Handler) Passkey(w http.ResponseWriter, r *http.Request) error {
	f, err := h.Flows.Open(r.PostForm.Get("flow"))
	if err != nil {
		return err
	}
	limit := addressLimit(Network(r))
	if wait := h.Attempts.Take(limit); wait > 0 {
		SetRetryAfter(w, wait)
		return h.Show(w, r, http.StatusTooManyRequests, Form{Flow: f, Problem: TooMany})
	}
	err = h.usePasskey(w, r, f)
	if problem, ok := errors.AsType[passkey.Problem](err); ok {
		return h.Show(w, r, http.StatusBadRequest, Form{Flow: f, Problem: string(problem)})
	}
	if err == nil {
		h.Attempts.Refund(limit)
	}
	return err
}

// usePasskey signs in the user whose passkey has answered. It returns a passkey.Problem if it does not
// accept the answer.
func (h *Handler) usePasskey(w http.ResponseWriter, r *http.Request, f *flow.Flow) error {
	assertion, err := h.Passkeys.Asserted(r)
	if err != nil {
		return err
	}
	user, err := h.userOf(r.Context(), f, assertion.UserID)
	if errs.KindOf(err) == errs.NotFound {
		return passkey.ErrRefused
	}
	if err != nil {
		return err
	}
	err = h.Complete(w, r, f, Proof{
		PasswordHash: user.PasswordHash, Methods: passkey.Methods(),
	}, func(tx *db.Tx) (string, error) {
		if err := h.Passkeys.Use(tx, assertion); err != nil {
			return "", err
		}
		return user.ID, h.NotifyDevice(tx, r, ownerIn(f, user.ID, user.PasswordHash))
	})
	if !errors.Is(err, passkey.ErrCounter) {
		return err
	}
	if err := h.DB.Write(r.Context(), func(tx *db.Tx) error {
		return h.Accounts.Audit.RecordUser(tx, actionPasskeyCopy, user.ID, "")
	}); err != nil {
		return err
	}
	return passkey.ErrCounter
}

// showEnrolPasskey renders the page for users who must create a passkey before they can sign in.
func (h *Handler) showEnrolPasskey(w http.ResponseWriter, r *http.Request, e enrolment) error {
	ceremony, err := h.Passkeys.Create(passkey.OwnerOf(e.user, nil))
	if err != nil {
		return err
	}
	view := &pages.NewPasskey{
		Email: e.user.Email, Path: oauth.PathSignInEnrolPasskey, Flow: h.Flows.Seal(e.flow), Ceremony: ceremony,
		Back: h.again(e.flow), BackText: "Sign in another way",
	}
	return h.Pages.RenderForm(w, r, view, e.problem)
}

// EnrolPasskey serves POST /sign-in/enrol/passkey: a user who must sign in with a passkey creates the
// first one, and is then signed in.
func (h *Handler) EnrolPasskey(w http.ResponseWriter, r *http.Request) error {
	f, user, other, err := h.enrolling(r, stepPasskey)
	if err != nil {
		return err
	}
	if other != nil {
		return h.showStep(w, r, f, *other)
	}
	e := enrolment{flow: f, user: user}
	err = h.enrolPasskey(w, r, e)
	if problem, ok := errors.AsType[passkey.Problem](err); ok {
		e.problem = string(problem)
		return h.showEnrolPasskey(w, r, e)
	}
	return err
}

// enrolPasskey adds the passkey in a request and signs the user in. It returns a passkey.Problem if it
// does not accept the passkey.
func (h *Handler) enrolPasskey(w http.ResponseWriter, r *http.Request, e enrolment) error {
	user := e.user
	created, err := h.Passkeys.Created(r, user.ID)
	if err != nil {
		return err
	}
	return h.Complete(w, r, e.flow, Proof{
		PasswordHash: user.PasswordHash, Methods: passkey.Methods(),
	}, func(tx *db.Tx) (string, error) {
		if _, err := h.Accounts.PasswordHash(tx, user.ID); err != nil {
			return "", err
		}
		count, err := h.Passkeys.Count(tx, user.ID)
		if err != nil {
			return "", err
		}
		if count > 0 { // a user who has one signs in with it
			return "", flow.ErrExpired
		}
		if err := h.Passkeys.Add(tx, user.ID, created); err != nil {
			return "", err
		}
		return user.ID, h.Accounts.Changed(tx, user.ID, ActionPasskey, mail.PasskeyAdded)
	})
}

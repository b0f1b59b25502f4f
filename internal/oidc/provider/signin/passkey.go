package signin

import (
	"errors"
	"net/http"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc/provider/flow"
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
	var problem passkey.Problem
	if errors.As(err, &problem) {
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

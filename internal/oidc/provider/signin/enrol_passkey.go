package signin

import (
	"errors"
	"net/http"
	"strings"

	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/passkey"
)

// enrolment is a sign-in for which a user has to create a passkey. The problem is that of the last try.
type enrolment struct {
	flow    *flow.Flow
	user    oidc.User
	problem string
}

// showEnrolPasskey renders the page on which a user has to create a passkey to sign in.
func (h *Handler) showEnrolPasskey(w http.ResponseWriter, r *http.Request, e enrolment) error {
	ceremony, err := h.Passkeys.Create(ownerOf(e.user, nil))
	if err != nil {
		return err
	}
	view := &pages.NewPasskey{
		Email: e.user.Email, Path: oauth.PathSignInEnrolPasskey, Flow: h.Flows.Seal(e.flow), Ceremony: ceremony,
		Back: h.again(e.flow), BackText: "Sign in another way",
	}
	view.Problem = e.problem
	return h.Pages.Render(w, r, formStatus(e.problem), view)
}

// ownerOf returns whom a passkey is created for, with the passkeys of that user.
func ownerOf(user oidc.User, list []passkey.Passkey) passkey.Owner {
	return passkey.Owner{
		ID: user.ID, Email: user.Email, Passkeys: list, Name: strings.TrimSpace(user.FirstName + " " + user.LastName),
	}
}

// EnrolPasskey serves POST /sign-in/enrol/passkey: a user who has to sign in with a passkey creates the first
// one, and is signed in then.
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
	var problem passkey.Problem
	if errors.As(err, &problem) {
		e.problem = string(problem)
		return h.showEnrolPasskey(w, r, e)
	}
	return err
}

// enrolPasskey adds the passkey of a request and signs in. It returns a passkey.Problem if the passkey is not
// accepted.
func (h *Handler) enrolPasskey(w http.ResponseWriter, r *http.Request, e enrolment) error {
	keyName, ok := passkeyName(r)
	if !ok {
		return passkey.Problem(badPasskeyName)
	}
	user := e.user
	created, err := h.Passkeys.Created(user.ID, answer(r))
	if err != nil {
		return err
	}
	return h.signIn(w, r, e.flow, proof{
		passwordHash: user.PasswordHash, methods: passkeyMethods(),
		commit: func(tx *db.Tx) (string, error) {
			count, err := h.Passkeys.Count(tx, user.ID)
			if err != nil {
				return "", err
			}
			if count > 0 { // whoever has one signs in with it
				return "", flow.ErrExpired
			}
			if err := h.Passkeys.Add(tx, user.ID, keyName, created); err != nil {
				return "", err
			}
			return user.ID, h.changed(tx, user.ID, actionPasskey, NoticePasskey)
		},
	})
}

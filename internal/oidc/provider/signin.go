package provider

import (
	"context"
	"net/http"
	"strings"
	"unicode/utf8"

	"steward/internal/errs"
	"steward/internal/web"
)

// wrongPassword is the same for an unknown address and a wrong password.
const wrongPassword = "The e-mail address or the password is not right."

// signIn answers POST /sign-in. An address that nobody has takes the same time and gets the same answer as a wrong password.
func (p *Provider) signIn(w http.ResponseWriter, r *http.Request) error {
	f, err := p.openFlow(r.PostForm.Get("flow"))
	if err != nil {
		return refuse(invalidRequest, errFlow.Error())
	}
	email := strings.ToLower(strings.TrimSpace(r.PostForm.Get("email")))
	email = email[:min(len(email), maxEmail)]
	v := signInView{Email: email}
	limits := passwordLimits(email, web.Request(r.Context()).RemoteAddr)
	if wait := p.throttle.take(p.Now(), limits); wait > 0 {
		return p.tooMany(w, r, f, v, wait)
	}
	userID, err := p.checkPassword(r.Context(), email, r.PostForm.Get("password"))
	if err != nil {
		return err
	}
	if userID == "" {
		v.Problem = wrongPassword
		return p.showSignIn(w, r, f, v)
	}
	p.throttle.giveBack(limits)
	s, err := p.signedIn(w, r, userID)
	if err != nil {
		return err
	}
	f.Fresh = s.ID
	http.Redirect(w, r, p.address(f), http.StatusSeeOther)
	return nil
}

// maxPassword bounds what is hashed; a password that was set is never longer.
const (
	minPassword = 8
	maxPassword = 1024
	maxEmail    = 254
)

// checkPassword gives the user whose password that is, or "".
func (p *Provider) checkPassword(ctx context.Context, email, password string) (userID string, err error) {
	var user User
	if utf8.ValidString(email) && !strings.ContainsRune(email, 0) {
		user, err = p.Users.ByEmail(ctx, email)
		if err != nil && errs.KindOf(err) != errs.NotFound {
			return "", err
		}
	}
	right := false
	password = password[:min(len(password), maxPassword+1)]
	err = p.hashing.do(ctx, func() { right = p.Users.CheckPassword(user.PasswordHash, password) })
	if err != nil || !right {
		return "", err
	}
	return user.ID, nil
}

// newPassword tells what is wrong with a password, or "".
func newPassword(password string) string {
	switch {
	case utf8.RuneCountInString(password) < minPassword:
		return "Choose a password of 8 characters or more."
	case len(password) > maxPassword || !utf8.ValidString(password):
		return "This password is too long, or cannot be read."
	}
	return ""
}

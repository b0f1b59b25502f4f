package provider

import (
	"net/http"
	"strings"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/stamp"
	"steward/internal/web"
)

// invitation answers GET /invite/{token}: a new member sets a first password.
func (p *Provider) invitation(w http.ResponseWriter, r *http.Request) error {
	return p.showInvitation(w, r, "")
}

func (p *Provider) showInvitation(w http.ResponseWriter, r *http.Request, problem string) error {
	token := r.PathValue("token")
	i, err := p.invited(r, token)
	if err != nil {
		return err
	}
	if i.HasPassword {
		return p.say(w, r, http.StatusOK, "You are a member of "+i.OrgName, "Sign in with the password that you have already.")
	}
	v := inviteView{page: page{Problem: problem}, Email: i.Email, Org: i.OrgName, Path: pathInvite + token}
	status := http.StatusOK
	if problem != "" {
		status = http.StatusBadRequest
	}
	return p.render(w, r, status, "invite", &v.page, &v)
}

func (p *Provider) invited(r *http.Request, token string) (Invitation, error) {
	i, err := p.Users.Invitation(r.Context(), token)
	if errs.KindOf(err) == errs.NotFound {
		return i, &fault{http.StatusNotFound, invalidRequest, "this invitation was used already, or has expired: ask for a new one"}
	}
	return i, err
}

// acceptInvitation answers POST /invite/{token}. Whoever has set the password is signed in.
func (p *Provider) acceptInvitation(w http.ResponseWriter, r *http.Request) error {
	token, password := r.PathValue("token"), r.PostForm.Get("password")
	if _, err := p.invited(r, token); err != nil {
		return err
	}
	if problem := newPassword(password); problem != "" {
		return p.showInvitation(w, r, problem)
	}
	var hash, userID string
	if err := p.hashing.do(r.Context(), func() { hash = p.Users.HashPassword(password) }); err != nil {
		return err
	}
	err := p.DB.Write(r.Context(), func(tx *db.Tx) (err error) {
		userID, err = p.Users.Accept(tx, token, hash)
		return err
	})
	switch errs.KindOf(err) {
	case "":
	case errs.NotFound, errs.Conflict:
		return p.showInvitation(w, r, "")
	default:
		return err
	}
	if _, err := p.signedIn(w, r, userID); err != nil {
		return err
	}
	http.Redirect(w, r, pathAccount, http.StatusSeeOther)
	return nil
}

// account answers GET /account: change the password, see where one is signed in, sign out there.
func (p *Provider) account(w http.ResponseWriter, r *http.Request) error {
	s, user, err := p.signedInUser(r)
	if err != nil {
		return err
	}
	if s == nil {
		return p.showSignIn(w, r, &flow{Next: pathAccount, Until: stamp.Of(p.Now()).Add(flowLife)}, signInView{})
	}
	return p.showAccount(w, r, s, user, "", "")
}

func (p *Provider) showAccount(w http.ResponseWriter, r *http.Request, s *session, user *User, problem, done string) error {
	list, err := sessionsOf(p.DB.Read(r.Context()), user.ID, stamp.Of(p.Now()))
	if err != nil {
		return err
	}
	v := accountView{page: page{Problem: problem}, Email: user.Email, Done: done}
	for _, one := range list {
		v.Sessions = append(v.Sessions, sessionView{
			ID: one.ID, Agent: agentName(one.UserAgent), Address: one.RemoteAddr, Since: one.CreatedAt.Std().Format("2 January 2006, 15:04"),
			Seen: one.LastSeenAt.Std().Format("2 January 2006, 15:04"), Current: one.ID == s.ID,
		})
	}
	status := http.StatusOK
	if problem != "" {
		status = http.StatusBadRequest
	}
	return p.render(w, r, status, "account", &v.page, &v)
}

// browsers is how they call themselves. Most name others too, so the order counts.
var browsers = []struct{ mark, name string }{
	{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"},
}

// agentName is a browser's name as people know it.
func agentName(agent string) string {
	for _, known := range browsers {
		if strings.Contains(agent, known.mark) {
			return known.name
		}
	}
	if agent == "" {
		return "Unknown browser"
	}
	return agent
}

// changePassword answers POST /account/password. All other sessions of the user end with the old password.
func (p *Provider) changePassword(w http.ResponseWriter, r *http.Request) error {
	s, user, err := p.signedInUser(r)
	if err != nil {
		return err
	}
	if s == nil {
		return p.account(w, r)
	}
	limits := passwordLimits(user.Email, web.Request(r.Context()).RemoteAddr)
	if p.throttle.take(p.Now(), limits) > 0 {
		return p.showAccount(w, r, s, user, "Too many attempts. Wait a minute, then try again.", "")
	}
	right, hash := false, ""
	fresh := r.PostForm.Get("new_password")
	problem := newPassword(fresh)
	err = p.hashing.do(r.Context(), func() {
		if right = p.Users.CheckPassword(user.PasswordHash, r.PostForm.Get("password")); right && problem == "" {
			hash = p.Users.HashPassword(fresh)
		}
	})
	switch {
	case err != nil:
		return err
	case !right:
		return p.showAccount(w, r, s, user, "The current password is not right.", "")
	}
	p.throttle.giveBack(limits)
	if problem != "" {
		return p.showAccount(w, r, s, user, problem, "")
	}
	err = p.DB.Write(r.Context(), func(tx *db.Tx) error {
		if err := p.Users.SetPassword(tx, user.ID, hash); err != nil {
			return err
		}
		return endSessions(tx, user.ID, s.ID)
	})
	if err != nil {
		return err
	}
	return p.showAccount(w, r, s, user, "", "Your password was changed, and you were signed out everywhere else.")
}

// revokeSession answers POST /account/sessions: sign out somewhere, or here.
func (p *Provider) revokeSession(w http.ResponseWriter, r *http.Request) error {
	s, user, err := p.signedInUser(r)
	if err != nil {
		return err
	}
	if s == nil {
		return p.account(w, r)
	}
	if which := r.PostForm.Get("session"); which != s.ID {
		err := p.DB.Write(r.Context(), func(tx *db.Tx) error { return endSession(tx, user.ID, which) })
		if err != nil {
			return err
		}
		http.Redirect(w, r, pathAccount, http.StatusSeeOther)
		return nil
	}
	if err := p.signOut(r.Context(), w, s); err != nil {
		return err
	}
	return p.say(w, r, http.StatusOK, "You are signed out", "You can close this page.")
}

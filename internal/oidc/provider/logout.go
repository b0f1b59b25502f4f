package provider

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"steward/internal/errs"
)

// leaving is a request to sign out, checked (OpenID Connect RP-Initiated Logout).
type leaving struct {
	// client is who asks; nil when nobody said.
	client *client
	// returnTo is an address that the client registered for this, or empty.
	returnTo string
	state    string
	// hint is the ID token that was sent; nil when none was.
	hint *idClaims
}

// endSession answers GET and POST /end_session. A client that sends the user's own ID token has them signed out at once; in every other
// case the user is asked, since any site can send them here.
func (p *Provider) endSession(w http.ResponseWriter, r *http.Request) error {
	form := r.URL.Query()
	if r.Method == http.MethodPost {
		if f := readForm(w, r); f != nil {
			return f
		}
		form = r.PostForm
	}
	l, err := p.leave(r.Context(), form)
	if err != nil {
		return err
	}
	s, user, err := p.signedInUser(r)
	if err != nil {
		return err
	}
	if s == nil || l.hint != nil && l.hint.Subject == s.UserID {
		return p.left(w, r, s, l)
	}
	v := signOutView{Email: user.Email, Query: form.Encode()}
	if l.client != nil {
		v.Client = l.client.Name
	}
	return p.render(w, r, http.StatusOK, "signout", &v.page, &v)
}

// leave checks a request to sign out. An address to return to counts only when its client is known and registered exactly that one; else
// the fault is shown on a page, and nobody is redirected anywhere.
func (p *Provider) leave(ctx context.Context, form url.Values) (*leaving, error) {
	param := map[string]string{}
	for _, name := range []string{"id_token_hint", "client_id", "post_logout_redirect_uri", "state"} {
		value, f := single(form, name)
		if f != nil {
			return nil, f
		}
		param[name] = value
	}
	l := &leaving{state: param["state"]}
	clientID := param["client_id"]
	if hint := param["id_token_hint"]; hint != "" {
		claims, ok := p.readIDToken(ctx, hint)
		if !ok || len(claims.Audience) == 0 || clientID != "" && !slices.Contains(claims.Audience, clientID) {
			return nil, refuse(invalidRequest, "id_token_hint is not an ID token that this client got here")
		}
		l.hint, clientID = claims, claims.Audience[0]
	}
	if clientID != "" {
		c, err := p.Clients.Lookup(ctx, clientID)
		if err != nil && errs.KindOf(err) != errs.NotFound {
			return nil, err
		}
		l.client = c
	}
	uri := param["post_logout_redirect_uri"]
	if uri != "" && (l.client == nil || !l.client.MayReturn(uri)) {
		return nil, refuse(invalidRequest, "post_logout_redirect_uri is not registered for this client")
	}
	l.returnTo = uri
	return l, nil
}

// endSessionConfirm answers the user's answer to the page that asks.
func (p *Provider) endSessionConfirm(w http.ResponseWriter, r *http.Request) error {
	form, err := url.ParseQuery(r.PostForm.Get("query"))
	if err != nil {
		return refuse(invalidRequest, errFlow.Error())
	}
	l, err := p.leave(r.Context(), form)
	if err != nil {
		return err
	}
	s, err := p.session(r)
	if err != nil {
		return err
	}
	if r.PostForm.Get("action") != "approve" {
		return p.say(w, r, http.StatusOK, "You are still signed in", "Nothing was changed. You can close this page.")
	}
	return p.left(w, r, s, l)
}

// left ends the session and sends the user on their way.
func (p *Provider) left(w http.ResponseWriter, r *http.Request, s *session, l *leaving) error {
	if err := p.signOut(r.Context(), w, s); err != nil {
		return err
	}
	if l.returnTo == "" {
		return p.say(w, r, http.StatusOK, "You are signed out", "You can close this page.")
	}
	u, err := url.Parse(l.returnTo)
	if err != nil {
		return err
	}
	if l.state != "" {
		values := u.Query()
		values.Set("state", l.state)
		u.RawQuery = values.Encode()
	}
	http.Redirect(w, r, u.String(), http.StatusSeeOther)
	return nil
}

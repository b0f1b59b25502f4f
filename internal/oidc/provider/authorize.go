package provider

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/oidc"
	"steward/internal/seal"
	"steward/internal/stamp"
	"steward/internal/web"
)

// flowLife is how long a user may take on our pages.
const flowLife = 20 * time.Minute

// authorize answers GET /authorize: a new authorization request, or a flow that comes back from the sign-in page.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) error {
	form := r.URL.Query()
	text := form.Get("flow")
	if text == "" {
		return p.begin(w, r, form)
	}
	f, err := p.openFlow(text)
	if err != nil || f.Request == nil {
		return refuse(invalidRequest, errFlow.Error())
	}
	return p.proceed(w, r, f)
}

// authorizePost answers POST /authorize, which OpenID Connect wants too. It may come from any site, so it goes on as a GET.
func (p *Provider) authorizePost(w http.ResponseWriter, r *http.Request) error {
	if f := readForm(w, r); f != nil {
		return f
	}
	return p.begin(w, r, r.PostForm)
}

// begin checks an authorization request. Faults are shown on a page until the client's own redirect address is known, and redirected then.
func (p *Provider) begin(w http.ResponseWriter, r *http.Request, form url.Values) error {
	c, err := p.asking(r.Context(), form)
	if err != nil {
		return err
	}
	uri, f := single(form, "request_uri")
	if f != nil {
		return f
	}
	pushed := strings.HasPrefix(uri, pushedPrefix)
	if pushed {
		if form, err = p.takePushed(r.Context(), c, uri); err != nil {
			return err
		}
	}
	redirectURI, f := target(c, form)
	if f != nil {
		return f
	}
	q, f := p.parse(r.Context(), c, redirectURI, form)
	if f != nil {
		p.redirectFault(w, r, redirectURI, form.Get("state"), f)
		return nil
	}
	way := &flow{Request: q, Until: stamp.Of(p.Now()).Add(flowLife)}
	if pushed || r.Method == http.MethodPost {
		// What was pushed is used up now: the flow in the address lets the user reload the page all the same.
		http.Redirect(w, r, p.address(way), http.StatusSeeOther)
		return nil
	}
	return p.proceed(w, r, way)
}

// asking gives the client that an authorization request names.
func (p *Provider) asking(ctx context.Context, form url.Values) (*client, error) {
	clientID, f := single(form, "client_id")
	if f != nil {
		return nil, f
	}
	if clientID == "" {
		return nil, refuse(invalidRequest, "client_id is missing")
	}
	c, err := p.Clients.Lookup(ctx, clientID)
	if errs.KindOf(err) == errs.NotFound {
		return nil, &fault{http.StatusBadRequest, invalidClient, "there is no such application"}
	}
	return c, err
}

// proceed asks for what is missing: a sign-in, a consent, or nothing, and then the code is sent.
func (p *Provider) proceed(w http.ResponseWriter, r *http.Request, f *flow) error {
	q := f.Request
	c, err := p.asking(r.Context(), url.Values{"client_id": {q.ClientID}})
	if err != nil {
		return err
	}
	if !c.MayRedirect(q.RedirectURI) { // it may have been removed since the request was checked
		return refuse(invalidRequest, "redirect_uri is not registered for this client")
	}
	s, user, err := p.signedInUser(r)
	if err != nil {
		return err
	}
	if user == nil || p.stale(q, f, s) {
		if q.prompts(promptNone) {
			p.redirectFault(w, r, q.RedirectURI, q.State, refuse("login_required", "the user is not signed in"))
			return nil
		}
		return p.showSignIn(w, r, f, signInView{Email: q.LoginHint})
	}
	return p.agree(w, r, f, c, s, user)
}

// signedInUser gives the browser's session with its user, or nil for both.
func (p *Provider) signedInUser(r *http.Request) (*session, *User, error) {
	s, err := p.session(r)
	if err != nil || s == nil {
		return nil, nil, err
	}
	user, err := p.Users.ByID(r.Context(), s.UserID)
	if errs.KindOf(err) == errs.NotFound {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return s, &user, nil
}

// stale tells whether a session does not do for a request: it asks for a new sign-in, or for one that is not so long ago.
func (p *Provider) stale(q *request, f *flow, s *session) bool {
	if f.Fresh == s.ID {
		return false
	}
	old := q.MaxAge != nil && p.Now().Sub(s.AuthTime.Std()) > time.Duration(*q.MaxAge)*time.Second
	other := q.Subject != "" && q.Subject != s.UserID
	return old || other || q.prompts(promptLogin) || q.prompts(promptSelect)
}

// agree sees whether the user may use the client and has agreed to what it asks for.
func (p *Provider) agree(w http.ResponseWriter, r *http.Request, f *flow, c *client, s *session, user *User) error {
	q := f.Request
	if q.Subject != "" && q.Subject != user.ID {
		p.redirectFault(w, r, q.RedirectURI, q.State, refuse("login_required", "another user is signed in"))
		return nil
	}
	admitted, err := p.Clients.Admits(r.Context(), c, user.ID)
	if err != nil {
		return err
	}
	if !admitted {
		p.redirectFault(w, r, q.RedirectURI, q.State, refuse(accessDenied, "this user may not use this application"))
		return nil
	}
	given, err := p.Clients.Consent(r.Context(), c.ID, user.ID)
	if err != nil {
		return err
	}
	asked := askFor(q.Scopes, given, q.prompts(promptConsent))
	switch {
	case given != nil && len(asked) == 0:
		return p.sendCode(w, r, c, q, s, q.Scopes, given)
	case q.prompts(promptNone):
		p.redirectFault(w, r, q.RedirectURI, q.State, refuse("consent_required", "the user has not agreed to all of this"))
		return nil
	}
	f.User = user.ID
	return p.showConsent(w, r, consentView{Flow: p.sealFlow(f), Action: pathConsent}, c, user, asked)
}

// askFor gives the scopes that the user has to be asked for: the new ones, or all of them again.
func askFor(scopes []string, given *oidc.Consent, again bool) []string {
	if again || given == nil {
		return scopes
	}
	return slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return slices.Contains(given.Scopes, s) })
}

// consent answers POST /consent: the user agreed or declined.
func (p *Provider) consent(w http.ResponseWriter, r *http.Request) error {
	f, err := p.openFlow(r.PostForm.Get("flow"))
	if err != nil || f.Request == nil {
		return refuse(invalidRequest, errFlow.Error())
	}
	q := f.Request
	c, err := p.asking(r.Context(), url.Values{"client_id": {q.ClientID}})
	if err != nil {
		return err
	}
	s, user, err := p.signedInUser(r)
	if err != nil {
		return err
	}
	admitted := false
	if user != nil && user.ID == f.User && c.MayRedirect(q.RedirectURI) {
		admitted, err = p.Clients.Admits(r.Context(), c, user.ID)
	}
	if err != nil {
		return err
	}
	if !admitted { // somebody else has signed in meanwhile, or the client has changed: look again
		return p.proceed(w, r, f)
	}
	if r.PostForm.Get("action") != "approve" {
		p.redirectFault(w, r, q.RedirectURI, q.State, refuse(accessDenied, "the user declined"))
		return nil
	}
	scopes, saved, err := p.saveConsent(r, c, user.ID, q.Scopes, q.prompts(promptConsent))
	if err != nil {
		return err
	}
	if len(scopes) == 0 {
		p.redirectFault(w, r, q.RedirectURI, q.State, refuse(accessDenied, "the user agreed to nothing"))
		return nil
	}
	return p.sendCode(w, r, c, q, s, scopes, saved)
}

// saveConsent writes down what the user agreed to and what they declined, of what they were asked for. It gives those of the requested
// scopes that are granted; with none, nothing is written.
func (p *Provider) saveConsent(r *http.Request, c *client, userID string, requested []string, again bool) ([]string, *oidc.Consent, error) {
	given, err := p.Clients.Consent(r.Context(), c.ID, userID)
	if err != nil {
		return nil, nil, err
	}
	asked, checked := askFor(requested, given, again), r.PostForm["scope"]
	var granted, declined []string
	for _, s := range requested {
		if slices.Contains(asked, s) && !slices.Contains(checked, s) && !isRequired(s) {
			declined = append(declined, s)
		} else {
			granted = append(granted, s)
		}
	}
	if len(granted) == 0 {
		return nil, nil, nil
	}
	saved, err := p.Clients.SaveConsent(r.Context(), c.ID, userID, granted, declined)
	return granted, &saved, err
}

// isRequired tells whether a user cannot decline a scope alone.
func isRequired(name string) bool {
	s, ok := oidc.ScopeNamed(name)
	return ok && s.Required
}

// sendCode writes the grant and sends its code to the client.
func (p *Provider) sendCode(
	w http.ResponseWriter, r *http.Request, c *client, q *request, s *session, scopes []string, agreed *oidc.Consent,
) error {
	code := id.Secret(43)
	g := newGrant(p.Now())
	g.OrgID, g.ClientID, g.UserID, g.Scopes = c.OrgID, c.ID, s.UserID, scopes
	g.ClientEpoch, g.ConsentEpoch, g.AuthTime = agreed.ClientEpoch, agreed.Epoch, s.AuthTime
	if !slices.Contains(scopes, scopeOffline) {
		g.SessionID = &s.ID
	}
	expires := g.CreatedAt.Add(codeLife)
	g.CodeHash, g.CodeExpiresAt, g.RedirectURI = seal.Hash(code), &expires, &q.RedirectURI
	g.Nonce, g.Challenge, g.JKT = optional(q.Nonce), optional(q.Challenge), optional(q.JKT)
	if err := p.DB.Write(r.Context(), func(tx *db.Tx) error { return insertGrant(tx, g) }); err != nil {
		return err
	}
	p.redirect(w, r, q.RedirectURI, url.Values{"code": {code}, "state": {q.State}})
	return nil
}

// redirect sends the user back to the client, with the issuer in the answer (RFC 9207). 303 makes a GET of it, so that no form of ours is
// sent along.
func (p *Provider) redirect(w http.ResponseWriter, r *http.Request, uri string, params url.Values) {
	u, err := url.Parse(uri)
	if err != nil {
		panic(err) // it is the client's, which was parsed when it was registered
	}
	params.Set("iss", p.Issuer)
	if params.Get("state") == "" {
		params.Del("state")
	}
	u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+params.Encode(), "&") // what the client registered stays as it is
	http.Redirect(w, r, u.String(), http.StatusSeeOther)
}

func (p *Provider) redirectFault(w http.ResponseWriter, r *http.Request, uri, state string, f *fault) {
	p.redirect(w, r, uri, url.Values{"error": {f.code}, "error_description": {f.text}, "state": {state}})
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

const (
	pushedPrefix = "urn:ietf:params:oauth:request_uri:"
	// pushedLife is how long a pushed request waits for its user.
	pushedLife = 90 * time.Second
)

type pushedAnswer struct {
	RequestURI string `json:"request_uri"`
	ExpiresIn  int64  `json:"expires_in"`
}

// push answers POST /par: a client sends its authorization request beforehand, authenticated (RFC 9126).
func (p *Provider) push(r *http.Request, c *client) (*pushedAnswer, error) {
	form := r.PostForm
	form.Del("client_secret")
	if form.Has("request_uri") {
		return nil, refuse(invalidRequest, "request_uri cannot be pushed")
	}
	redirectURI, f := target(c, form)
	if f != nil {
		return nil, f
	}
	q, f := p.parse(r.Context(), c, redirectURI, form)
	if f != nil {
		return nil, f
	}
	if isPublic(c) && p.throttle.take(p.Now(), pushLimits(web.Request(r.Context()).RemoteAddr)) > 0 {
		return nil, &fault{http.StatusTooManyRequests, "temporarily_unavailable", "too many requests were pushed"}
	}
	if err := p.pushedProof(r, q, form); err != nil {
		return nil, err
	}
	text, err := json.Marshal(form)
	if err != nil {
		return nil, err
	}
	handle := id.Secret(43)
	expires := stamp.Of(p.Now()).Add(pushedLife)
	err = p.DB.Write(r.Context(), func(tx *db.Tx) error { return insertPushed(tx, handle, c.ID, string(text), expires) })
	return &pushedAnswer{pushedPrefix + handle, int64(pushedLife.Seconds())}, err
}

// pushedProof binds the code to the key of a DPoP proof that was sent along (RFC 9449 section 10.1).
func (p *Provider) pushedProof(r *http.Request, q *request, form url.Values) error {
	sent, err := p.proofOf(r, "")
	if err != nil || sent.jkt == "" {
		return err
	}
	if q.JKT != "" && q.JKT != sent.jkt {
		return badProof("dpop_jkt is not the key of the proof")
	}
	form.Set("dpop_jkt", sent.jkt)
	return p.useProof(r, sent)
}

// takePushed gives the parameters behind a request_uri, which serves once and its own client only.
func (p *Provider) takePushed(ctx context.Context, c *client, uri string) (form url.Values, err error) {
	var text string
	err = p.DB.Write(ctx, func(tx *db.Tx) (err error) {
		text, err = takePushed(tx, strings.TrimPrefix(uri, pushedPrefix), c.ID, stamp.Of(p.Now()))
		return err
	})
	if isNoRows(err) {
		return nil, refuse(invalidRequest, "this request_uri was used already, has expired, or is not of this application")
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &form)
	}
	return form, err
}

package upstream

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"golang.org/x/oauth2"

	"steward/internal/oidc/provider/oauth"
)

const (
	// maxSubject is the longest subject that OpenID Connect Core allows.
	maxSubject = 255
	maxEmail   = 254
	maxMethods = 10
)

// Claims has a provider's statements about a user.
type Claims struct {
	Subject string
	// Email is in lower case. It is unverified unless EmailVerified is set.
	Email               string
	EmailVerified       bool
	FirstName, LastName string
	Groups              []string
	// Methods has the methods that the user signed in with there, if the provider names them.
	Methods oauth.Methods
	// AuthTime is the time of the authentication there, in seconds, or 0 if unknown.
	AuthTime int64

	nonce string
}

// document is a JSON object with claims.
type document map[string]json.RawMessage

// get decodes a claim into dst. It reports whether the claim exists and has that type.
func (d document) get(name string, dst any) bool {
	raw, ok := d[name]
	return ok && json.Unmarshal(raw, dst) == nil
}

// text returns a claim, or "" if it is not text that we can store.
func (d document) text(name string) string {
	var s string
	if !d.get(name, &s) || strings.ContainsRune(s, 0) {
		return ""
	}
	return s
}

// texts returns a claim that is a list of texts, or a single one.
func (d document) texts(name string) []string {
	var list []string
	if d.get(name, &list) {
		return list
	}
	if s := d.text(name); s != "" {
		return []string{s}
	}
	return nil
}

// complete reports whether the claims that we use are there, as far as we can expect them.
func (d document) complete(reg Registration) bool {
	_, email := d["email"]
	_, groups := d[reg.GroupsClaim]
	return (email || !slices.Contains(reg.Scopes, "email")) && (groups || reg.GroupsClaim == "")
}

// addUserInfo adds missing claims from the userinfo endpoint. They must be about the same user.
func (d document) addUserInfo(ctx context.Context, p *provider, token *oauth2.Token) error {
	info, err := p.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil || info.Subject != d.text("sub") {
		return errUserInfo
	}
	var more document
	if err := info.Claims(&more); err != nil {
		return errUserInfo
	}
	if _, ok := d["email"]; ok {
		delete(more, "email_verified") // it is about another address
	}
	for _, name := range protocolClaims {
		delete(more, name)
	}
	for name, value := range more {
		if _, ok := d[name]; !ok {
			d[name] = value
		}
	}
	return nil
}

// protocolClaims lists the claims that only an ID token has.
var protocolClaims = []string{"iss", "sub", "aud", "azp", "nonce", "auth_time", "amr", "acr"}

func (d document) claims(reg Registration) (Claims, error) {
	c := Claims{
		Subject: d.text("sub"), FirstName: d.text("given_name"), LastName: d.text("family_name"),
		EmailVerified: d.verified(), Methods: d.methods(), nonce: d.text("nonce"),
	}
	if c.Subject == "" || len(c.Subject) > maxSubject {
		return Claims{}, errIDToken
	}
	if email := strings.ToLower(d.text("email")); len(email) <= maxEmail && strings.Contains(email, "@") {
		c.Email = email
	}
	c.EmailVerified = c.EmailVerified && c.Email != ""
	if c.FirstName == "" && c.LastName == "" {
		c.FirstName = d.text("name")
	}
	if reg.GroupsClaim != "" {
		c.Groups = d.texts(reg.GroupsClaim)
	}
	d.get("auth_time", &c.AuthTime)
	return c, nil
}

// verified returns the email_verified claim, which some providers send as text.
func (d document) verified() bool {
	var verified bool
	return d.get("email_verified", &verified) && verified || d.text("email_verified") == "true"
}

// methods returns the amr claim, without unregistered values.
func (d document) methods() oauth.Methods {
	var known oauth.Methods
	for _, m := range d.texts("amr") {
		if slices.Contains(registered, m) && len(known) < maxMethods {
			known = append(known, m)
		}
	}
	return known
}

// registered lists the values in RFC 8176.
var registered = []string{
	"face", "fpt", "geo", "hwk", "iris", "kba", "mca", "mfa", "otp", "pin", "pop", "pwd", "rba", "retina", "sc", "sms", "swk",
	"tel", "user", "vbm", "wia",
}

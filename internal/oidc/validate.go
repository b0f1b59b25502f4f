package oidc

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/name"
)

// Limits for a client's fields, in characters and entries.
const (
	maxName        = 256
	maxDescription = 4096
	maxURL         = 2048
	maxUserID      = 128
	maxURIs        = 100
	maxList        = 100
	maxUsers       = 10_000
	maxClientID    = 128
	maxClients     = 1_000
)

// validate adds all of a client's faults, except its icon's.
func (c Client) validate(faults *errs.Faults) {
	c.validateFields(faults)
	c.validateAuthentication(faults)
	c.validateRegistration(faults)
}

// validateFields checks a client's fields, but not whether its authentication fits together.
func (c Client) validateFields(faults *errs.Faults) {
	faults.Check(c.ClientType == Confidential || c.ClientType == Public, "body.client_type",
		"expected confidential or public")
	if faults.Has("body.client_type") {
		c.validateAsAny(faults)
		return
	}
	c.validateAsTyped(faults)
}

// validateAsAny adds the faults that the client has whatever its type.
func (c Client) validateAsAny(faults *errs.Faults) {
	var public, confidential errs.Faults
	c.ClientType = Public
	c.validateAsTyped(&public)
	c.ClientType = Confidential
	c.validateAsTyped(&confidential)
	faults.AddCommon(&public, &confidential)
}

// validateAsTyped adds the faults of a client whose type is known.
func (c *Client) validateAsTyped(faults *errs.Faults) {
	faults.Check(name.Valid(c.Name) && isText(c.Name, maxName, ""), "body.name",
		"expected %s, of at most %d characters", name.Expected, maxName)
	faults.Check(isText(c.Description, maxDescription, "\r\n\t"), "body.description",
		"expected at most %d characters, without control characters", maxDescription)
	faults.Check(isHomepage(c.HomepageURL), "body.homepage_url",
		"expected an absolute http or https URL of at most %d characters", maxURL)
	faults.Check(c.ProjectID == nil || id.Foreign(*c.ProjectID), "body.project_id",
		"expected %s", id.ExpectedForeign)
	c.validateURIs(faults, "body.redirect_uris", c.RedirectURIs)
	c.validateURIs(faults, "body.post_logout_redirect_uris", c.PostLogoutRedirectURIs)
	faults.Check(slices.Equal(unique(c.ResponseTypes), responseTypes), "body.response_types", `expected ["code"]`)
	faults.Check(len(unique(c.GrantTypes)) <= maxList, "body.grant_types", "expected at most %d grant types", maxList)
	faults.Check(len(unique(c.Scopes)) <= maxList, "body.scopes", "expected at most %d scopes", maxList)
	for i, name := range c.GrantTypes {
		g, known := GrantTypeNamed(name)
		faults.Check(known, entry("body.grant_types", i), "expected one of %s", strings.Join(GrantTypes(), ", "))
		faults.Check(!g.Confidential || c.ClientType != Public, entry("body.grant_types", i),
			"expected another grant type: %s is for confidential clients only", g.Name)
	}
	for i, s := range c.Scopes {
		_, known := ScopeNamed(s)
		faults.Check(known, entry("body.scopes", i), "expected a scope of the catalogue (GET /oidc/scopes)")
	}
	c.validateLifetimes(faults)
	c.validateUsers(faults)
	c.validateAudience(faults)
	c.validateAllowedClients(faults)
	for location, uri := range map[string]*string{
		"body.backchannel_logout_uri": c.BackchannelLogoutURI, "body.frontchannel_logout_uri": c.FrontchannelLogoutURI,
	} {
		faults.Check(uri == nil || isLogoutURI(*uri), location,
			"expected an https URL without a fragment, of at most %d characters, or null; http is for loopback addresses and localhost only", maxURL)
	}
	faults.Check(slices.Contains(authMethods, c.AuthMethod), "body.token_endpoint_auth_method",
		"expected one of %s", strings.Join(AuthMethods(), ", "))
	if c.JWKS != nil {
		c.JWKS.validate(faults, "body.jwks")
	}
	faults.Check(c.JWKSURI == nil || isLogoutURI(*c.JWKSURI), "body.jwks_uri",
		"expected an https URL without a fragment, of at most %d characters, or null; http is for loopback addresses and localhost only", maxURL)
}

// validateIcon checks an icon in the request. Earlier versions accepted any text; such a text stays
// until a new icon is sent.
func (s Settings) validateIcon(faults *errs.Faults) {
	sent := s.Icon.Ptr()
	faults.Check(sent == nil || isImageURL(*sent), "body.icon",
		"expected an https URL of at most %d characters, or null; http is for loopback addresses and localhost only", maxURL)
}

// isImageURL reports whether our pages may load an image from a URL.
func isImageURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && isPlainURI(text) && u.Opaque == "" && u.User == nil && hasHost(u) &&
		(u.Scheme == "https" || u.Scheme == "http" && isLocal(u.Hostname()))
}

func (c *Client) validateUsers(faults *errs.Faults) {
	if len(c.AllowedUserIDs) > maxUsers {
		faults.Add("body.allowed_user_ids", "expected at most %d user ids", maxUsers)
		return
	}
	for i, u := range c.AllowedUserIDs {
		faults.Check(u != "" && isText(u, maxUserID, ""), entry("body.allowed_user_ids", i),
			"expected a user id of 1 to %d characters", maxUserID)
		faults.Check(!strings.HasPrefix(u, id.Invitation+"_"), entry("body.allowed_user_ids", i),
			"expected a user id; a pending member has none before the invitation is accepted")
	}
}

func (c *Client) validateAllowedClients(faults *errs.Faults) {
	if len(c.AllowedClients) > maxClients {
		faults.Add("body.allowed_clients", "expected at most %d client ids", maxClients)
		return
	}
	for i, clientID := range c.AllowedClients {
		faults.Check(clientID != "" && isText(clientID, maxClientID, ""), entry("body.allowed_clients", i),
			"expected a client id of 1 to %d characters", maxClientID)
	}
}

// validateAudience checks a resource server's audience. A public client cannot have one: it cannot
// authenticate, so it could not introspect tokens.
func (c *Client) validateAudience(faults *errs.Faults) {
	if c.Audience == nil {
		return
	}
	faults.Check(IsAudience(*c.Audience), "body.audience",
		"expected an absolute URI without a fragment, of at most %d printable ASCII characters, or null", maxURL)
	faults.Check(c.ClientType != Public, "body.audience", "expected none, since the client is public: only confidential clients have an audience")
}

// IsAudience reports whether text can be a token's audience: an absolute URI without a fragment (RFC
// 8707 section 2).
func IsAudience(text string) bool {
	u, err := url.Parse(text)
	return err == nil && isPlainURI(text) && u.IsAbs() && !strings.Contains(text, "#") && text != u.Scheme+":"
}

func entry(location string, i int) string { return fmt.Sprintf("%s[%d]", location, i) }

// isText reports whether text is valid UTF-8, has at most limit characters, and has no control
// characters except the allowed ones.
func isText(text string, limit int, allowed string) bool {
	if !utf8.ValidString(text) || utf8.RuneCountInString(text) > limit {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && !strings.ContainsRune(allowed, r)
	})
}

func (c *Client) validateLifetimes(faults *errs.Faults) {
	for _, l := range []struct {
		name      string
		seconds   *int64
		low, high int64
	}{
		{"access_token_lifetime_seconds", c.AccessSeconds, MinTokenLifetime, MaxTokenLifetime},
		{"refresh_token_lifetime_seconds", c.RefreshSeconds, MinRefreshLifetime, MaxRefreshLifetime},
		{"id_token_lifetime_seconds", c.IDSeconds, MinTokenLifetime, MaxTokenLifetime},
	} {
		faults.Check(l.seconds == nil || *l.seconds >= l.low && *l.seconds <= l.high, "body."+l.name,
			"expected %d to %d seconds", l.low, l.high)
	}
}

func isHomepage(text string) bool {
	u, err := url.Parse(text)
	return err == nil && isPlainURI(text) && (u.Scheme == "https" || u.Scheme == "http") && u.Opaque == "" && hasHost(u)
}

func (c *Client) validateURIs(faults *errs.Faults, location string, uris []string) {
	if len(uris) > maxURIs {
		faults.Add(location, "expected at most %d URIs", maxURIs)
		return
	}
	for i, uri := range uris {
		if problem := c.uriProblem(uri); problem != "" {
			faults.Add(entry(location, i), "%s", problem)
		}
	}
}

// uriProblem says why we refuse a redirect URI, or returns "". We send codes to it, so it refuses
// anything that two parsers could read differently: user names, backslashes, blanks, and hosts that are
// neither plain names nor addresses.
func (c *Client) uriProblem(uri string) string {
	u, err := url.Parse(uri)
	switch {
	case err != nil || !isPlainURI(uri):
		return fmt.Sprintf("expected an absolute URI of at most %d printable ASCII characters, without blanks or backslashes",
			maxURL)
	case u.Scheme == "":
		return "expected an absolute URI"
	case strings.Contains(uri, "#"):
		return "expected a URI without a fragment"
	case u.User != nil:
		return "expected a URI without a user name"
	case u.Scheme == "https":
		if u.Opaque != "" || !hasHost(u) {
			return "expected https:// and a host name or address"
		}
	case u.Scheme == "http":
		if u.Opaque != "" || !hasHost(u) || !isLocal(u.Hostname()) {
			return "expected https; http is for loopback addresses and localhost only"
		}
	case !strings.Contains(u.Scheme, "."):
		return "expected https, or a private-use scheme with a dot, such as com.example.app"
	case c.ClientType != Public:
		return "expected https; a private-use scheme is for public clients only"
	case u.Opaque != "":
		return "expected a slash after the scheme, such as com.example.app:/callback"
	}
	return ""
}

// isPlainURI reports whether text is ASCII, has at most maxURL characters, and reads the same to all
// parsers.
func isPlainURI(text string) bool {
	return len(text) <= maxURL && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\\<>\"^`{|}", r)
	})
}

// hasHost reports whether a URL's host is an IP address or a name made up of letters, digits, dots and
// hyphens, and its port, if any, is valid.
func hasHost(u *url.URL) bool {
	host, port := u.Hostname(), u.Port()
	if port == "" && strings.HasSuffix(u.Host, ":") {
		return false
	}
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) {
		return false
	}
	if strings.HasPrefix(u.Host, "[") {
		a, err := netip.ParseAddr(host)
		return err == nil && a.Is6() && a.Zone() == ""
	}
	return len(host) <= 253 && !slices.ContainsFunc(strings.Split(host, "."), func(label string) bool {
		return label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.ContainsFunc(label, func(r rune) bool { return !isAlphanumeric(r) && r != '-' && r != '_' })
	})
}

func isAlphanumeric(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// isLoopback reports whether host is ::1 or an address in 127.0.0.0/8, in the usual form. It refuses
// other forms, such as 127.1, 0x7f000001 or a mapped address.
func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback() && !a.Is4In6() && a.Zone() == ""
}

// isLocal reports whether host is a loopback address or localhost.
func isLocal(host string) bool { return isLoopback(host) || strings.EqualFold(host, "localhost") }

// isNative reports whether a redirect URI leads to an application on the user's device: it has a
// private-use scheme or a loopback host.
func isNative(uri string) bool {
	u, err := url.Parse(uri)
	return err != nil || u.Scheme != "https" && u.Scheme != "http" || isLocal(u.Hostname())
}

// matches reports whether a URI is registered.
func matches(registered []string, uri string) bool {
	return slices.ContainsFunc(registered, func(r string) bool { return sameURI(r, uri) })
}

// sameURI reports whether a URI equals a registered one. With a loopback address the ports may differ
// (RFC 8252 section 7.3), since a native application gets its port from the system.
func sameURI(registered, uri string) bool {
	if registered == uri {
		return true
	}
	want, ok := withoutPort(registered)
	got, isLoopback := withoutPort(uri)
	return ok && isLoopback && got == want
}

// withoutPort removes the port from an http URI with a loopback address. It returns false for any other
// URI.
func withoutPort(uri string) (string, bool) {
	rest, ok := strings.CutPrefix(uri, "http://")
	if !ok {
		return "", false
	}
	end := strings.IndexAny(rest, "/?#\\")
	if end < 0 {
		end = len(rest)
	}
	u := url.URL{Host: rest[:end]}
	if strings.Contains(rest[:end], "@") || !hasHost(&u) || !isLoopback(u.Hostname()) {
		return "", false
	}
	host := strings.TrimSuffix(rest[:end], ":"+u.Port())
	return "http://" + host + rest[end:], true
}

// HasLogoutURI reports whether the client wants to know when a session ends in which it got an ID
// token.
func (c *Client) HasLogoutURI() bool {
	return c.BackchannelLogoutURI != nil || c.FrontchannelLogoutURI != nil
}

// isLogoutURI reports whether we may request a URL when a session ends: it follows the rules for images
// and has no fragment.
func isLogoutURI(text string) bool { return isImageURL(text) && !strings.Contains(text, "#") }

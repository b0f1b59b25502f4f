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
)

// Bounds of a client's fields, in characters and entries.
const (
	maxName        = 256
	maxDescription = 4096
	maxURL         = 2048
	maxIcon        = 16_384
	maxUserID      = 128
	maxURIs        = 100
	maxUsers       = 10_000
)

// check notes everything that is wrong with a client.
func (c *Client) check(faults *errs.Faults) {
	faults.Check(strings.TrimSpace(c.Name) != "" && plain(c.Name, maxName, ""), "body.name",
		"expected 1 to %d characters that are not all blank, without control characters", maxName)
	faults.Check(plain(c.Description, maxDescription, "\r\n\t"), "body.description",
		"expected at most %d characters, without control characters", maxDescription)
	faults.Check(isHomepage(c.HomepageURL), "body.homepage_url", "expected an absolute http or https URL of at most %d characters", maxURL)
	faults.Check(c.Icon == nil || plain(*c.Icon, maxIcon, ""), "body.icon",
		"expected at most %d characters, without control characters, or null", maxIcon)
	faults.Check(c.ClientType == Confidential || c.ClientType == Public, "body.client_type", "expected confidential or public")
	c.checkURIs(faults, "body.redirect_uris", c.RedirectURIs)
	c.checkURIs(faults, "body.post_logout_redirect_uris", c.PostLogoutRedirectURIs)
	c.checkGrants(faults)
	c.checkLives(faults)
	faults.Check(len(c.AllowedUserIDs) <= maxUsers, "body.allowed_user_ids", "expected at most %d user ids", maxUsers)
	for i, u := range c.AllowedUserIDs {
		faults.Check(u != "" && plain(u, maxUserID, ""), at("body.allowed_user_ids", i), "expected a user id of 1 to %d characters", maxUserID)
	}
}

func at(location string, i int) string { return fmt.Sprintf("%s[%d]", location, i) }

// plain tells whether text is UTF-8 of at most so many characters, with no control characters but the given ones.
func plain(text string, most int, but string) bool {
	if !utf8.ValidString(text) || utf8.RuneCountInString(text) > most {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune(but, r) })
}

func (c *Client) checkGrants(faults *errs.Faults) {
	for i, g := range c.GrantTypes {
		faults.Check(slices.Contains(grantTypes, g), at("body.grant_types", i), "expected one of %s", strings.Join(grantTypes, ", "))
		faults.Check(g != ClientCredentials || c.ClientType != Public, at("body.grant_types", i),
			"client_credentials is for confidential clients only")
	}
	for i, r := range c.ResponseTypes {
		faults.Check(slices.Contains(responseTypes, r), at("body.response_types", i), "expected code")
	}
	for i, s := range c.Scopes {
		_, known := ScopeNamed(s)
		faults.Check(known, at("body.scopes", i), "expected a scope of the catalogue (GET /oidc/scopes)")
	}
}

func (c *Client) checkLives(faults *errs.Faults) {
	for _, l := range []struct {
		name        string
		set         *int64
		least, most int64
	}{
		{"access_token_lifetime_seconds", c.AccessSeconds, MinTokenLife, MaxTokenLife},
		{"refresh_token_lifetime_seconds", c.RefreshSeconds, MinRefreshLife, MaxRefreshLife},
		{"id_token_lifetime_seconds", c.IDSeconds, MinTokenLife, MaxTokenLife},
	} {
		faults.Check(l.set == nil || *l.set >= l.least && *l.set <= l.most, "body."+l.name, "expected %d to %d seconds", l.least, l.most)
	}
}

func isHomepage(text string) bool {
	u, err := url.Parse(text)
	return err == nil && printable(text) && (u.Scheme == "https" || u.Scheme == "http") && u.Opaque == "" && isHost(u)
}

func (c *Client) checkURIs(faults *errs.Faults, location string, uris []string) {
	faults.Check(len(uris) <= maxURIs, location, "expected at most %d addresses", maxURIs)
	for i, uri := range uris {
		if fault := c.uriFault(uri); fault != "" {
			faults.Add(at(location, i), "%s", fault)
		}
	}
}

// uriFault says what is wrong with a redirect address; "" means nothing. A user's code goes to this address, so whatever two parsers
// could read in two ways is refused: user names before the host, backslashes, blanks, hosts that are not plain names or addresses.
func (c *Client) uriFault(uri string) string {
	u, err := url.Parse(uri)
	switch {
	case err != nil || !printable(uri):
		return fmt.Sprintf("expected an absolute URI of at most %d printable ASCII characters, without blanks or backslashes", maxURL)
	case u.Scheme == "":
		return "expected an absolute URI"
	case strings.Contains(uri, "#"):
		return "must not have a fragment"
	case u.User != nil:
		return "must not have a user name"
	case u.Scheme == "https":
		if u.Opaque != "" || !isHost(u) {
			return "expected https:// and a host name or address"
		}
	case u.Scheme == "http":
		if u.Opaque != "" || !isHost(u) || !isLoopback(u.Hostname()) && !strings.EqualFold(u.Hostname(), "localhost") {
			return "http is for loopback addresses and localhost only; expected https"
		}
	case !strings.Contains(u.Scheme, "."):
		return "expected https, or a private-use scheme with a dot in it, such as com.example.app"
	case c.ClientType != Public:
		return "a private-use scheme is for public clients only"
	case u.Opaque != "":
		return "expected a slash after the scheme, such as com.example.app:/callback"
	}
	return ""
}

// printable tells whether text is a URI's worth of ASCII that no parser reads in its own way.
func printable(text string) bool {
	return len(text) <= maxURL && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\\<>\"^`{|}", r)
	})
}

// isHost tells whether a URL has a host that is an IP address or a name of letters, digits, dots and hyphens, and a sane port.
func isHost(u *url.URL) bool {
	host, port := u.Hostname(), u.Port()
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) || port == "" && strings.HasSuffix(u.Host, ":") {
		return false
	}
	if strings.HasPrefix(u.Host, "[") {
		a, err := netip.ParseAddr(host)
		return err == nil && a.Is6() && a.Zone() == ""
	}
	return len(host) <= 253 && !slices.ContainsFunc(strings.Split(host, "."), badLabel)
}

func badLabel(label string) bool {
	return label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
		strings.ContainsFunc(label, func(r rune) bool { return !isAlnum(r) && r != '-' && r != '_' })
}

func isAlnum(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// isLoopback knows 127.0.0.0/8 and ::1 in their usual forms, and no others: not 127.1, not 0x7f000001, not a mapped address.
func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback() && !a.Is4In6() && a.Zone() == ""
}

// matches tells whether a presented address is one of those registered: the same text, except that the port of a loopback literal may
// be any (RFC 8252, 7.3), since a native app takes what the system gives it.
func matches(registered []string, presented string) bool {
	if slices.Contains(registered, presented) {
		return true
	}
	bare, ok := withoutPort(presented)
	return ok && slices.ContainsFunc(registered, func(r string) bool {
		without, ok := withoutPort(r)
		return ok && without == bare
	})
}

// withoutPort gives an http address on a loopback literal without its port; false for any other address.
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
	if strings.Contains(rest[:end], "@") || !isHost(&u) || !isLoopback(u.Hostname()) {
		return "", false
	}
	host := strings.TrimSuffix(rest[:end], ":"+u.Port())
	return "http://" + host + rest[end:], true
}

package account

import (
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf8"

	"steward/internal/name"
)

const (
	maxName  = 256
	maxPhoto = 2048
)

// UserProfile is a user's description of themselves. Fields may be empty.
type UserProfile struct {
	FirstName, LastName, PhotoURL string
}

// Problem explains in a sentence why the profile is invalid, or returns "".
func (p UserProfile) Problem() string {
	for _, n := range []string{p.FirstName, p.LastName} {
		if n != "" && (!name.Valid(n) || utf8.RuneCountInString(n) > maxName) {
			return "A name must have at most 256 characters, and no invisible ones."
		}
	}
	if p.PhotoURL != "" && !isPhotoURL(p.PhotoURL) {
		return "The photo must be an https address, or an http address on this device."
	}
	return ""
}

// isPhotoURL reports whether browsers may load a photo from this URL: either over https, or over http
// from a loopback host.
func isPhotoURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxPhoto || u.Hostname() == "" || u.User != nil {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && isLocal(u.Hostname())
}

// isLocal reports whether host is a loopback address or localhost.
func isLocal(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback() || strings.EqualFold(host, "localhost")
}

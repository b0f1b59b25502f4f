package oidc

import (
	"strings"

	"steward/internal/errs"
)

// HasLogoutURI reports whether the client wants to know when a session ends in which it got an ID
// token.
func (c *Client) HasLogoutURI() bool {
	return c.BackchannelLogoutURI != nil || c.FrontchannelLogoutURI != nil
}

func (c *Client) validateLogoutURIs(faults *errs.Faults) {
	for location, uri := range map[string]*string{
		"body.backchannel_logout_uri": c.BackchannelLogoutURI, "body.frontchannel_logout_uri": c.FrontchannelLogoutURI,
	} {
		faults.Check(uri == nil || isLogoutURI(*uri), location,
			"expected an https URL without a fragment, of at most %d characters, or null; http is for loopback addresses and localhost only", maxURL)
	}
}

// isLogoutURI reports whether we may request a URL when a session ends: it follows the rules for images
// and has no fragment.
func isLogoutURI(text string) bool { return isImageURL(text) && !strings.Contains(text, "#") }

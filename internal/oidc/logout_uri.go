package oidc

import "strings"

// HasLogoutURI reports whether the client wants to know when a session ends in which it got an ID
// token.
func (c *Client) HasLogoutURI() bool {
	return c.BackchannelLogoutURI != nil || c.FrontchannelLogoutURI != nil
}

// isLogoutURI reports whether we may request a URL when a session ends: it follows the rules for images
// and has no fragment.
func isLogoutURI(text string) bool { return isImageURL(text) && !strings.Contains(text, "#") }

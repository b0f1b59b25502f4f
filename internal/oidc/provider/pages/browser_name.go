package pages

import "strings"

// products lists browsers' product tokens. Most browsers send other browsers' tokens too, so the order
// matters.
var products = []struct{ token, name string }{
	{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"},
}

// BrowserName returns the name of the browser that sends a User-Agent header, or "" if unknown.
func BrowserName(userAgent string) string {
	for _, p := range products {
		if strings.Contains(userAgent, p.token) {
			return p.name
		}
	}
	return ""
}

package browser

import "strings"

// products are the product tokens of browsers. Most browsers send the tokens of others too, so the order
// matters.
var products = []struct{ token, name string }{
	{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"},
}

// Name returns the name of the browser behind a User-Agent header, or "" if we do not know it.
func Name(userAgent string) string {
	for _, p := range products {
		if strings.Contains(userAgent, p.token) {
			return p.name
		}
	}
	return ""
}

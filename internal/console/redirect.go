package console

import (
	"net/http"
	"net/netip"
	"net/url"
)

// AtBaseURL returns a handler that redirects the console's pages to the base URL if a browser opens
// them by another name for this machine, such as 127.0.0.1 instead of localhost: browsers keep
// cookies and passkeys for one name only. Everything else goes on to next.
func (c *Console) AtBaseURL(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.isElsewhere(r) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, c.origin()+r.URL.RequestURI(), http.StatusFound)
	})
}

// isElsewhere reports whether a request is for a page at another loopback name than the base URL's.
// Another port may be a tunnel to this one, whose other end is not where the base URL leads.
func (c *Console) isElsewhere(r *http.Request) bool {
	page := r.URL.Path == "/console" || r.URL.Path == signInPath || isPage(r.URL.Path)
	if !page || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	base, err := url.Parse(c.BaseURL)
	if err != nil {
		return false
	}
	here := url.URL{Host: r.Host}
	return here.Port() == base.Port() && here.Hostname() != base.Hostname() &&
		isLoopback(here.Hostname()) && isLoopback(base.Hostname())
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

package provider

import (
	"net/http"
	"strings"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/web"
)

// entryPoints is the answer to programs that request GET /.
type entryPoints struct {
	Service string `json:"service"`
	OpenAPI string `json:"openapi"`
	Docs    string `json:"docs"`
	Console string `json:"console"`
	Account string `json:"account"`
}

// root serves GET /. It sends a browser to the console, which leads to the sign-in page, or tells the
// user how to set the installation up. It tells everybody else where the API is.
func (p *Provider) root(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Vary", "Accept")
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		pending, err := p.links.setup.Installation.Pending(r.Context())
		if err != nil {
			return err
		}
		if pending {
			return p.links.setup.ShowHint(w, r)
		}
		http.Redirect(w, r, oauth.PathConsole, http.StatusSeeOther)
		return nil
	}
	web.Write(w, r, http.StatusOK, entryPoints{
		Service: "Steward", OpenAPI: p.Issuer + "/openapi.json", Docs: p.Issuer + "/docs",
		Console: p.Issuer + oauth.PathConsole, Account: p.Issuer + oauth.PathAccount,
	})
	return nil
}

package provider

import (
	"net/http"
	"strings"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/web"
)

// entryPoints is what GET / tells programs.
type entryPoints struct {
	Service string `json:"service"`
	OpenAPI string `json:"openapi"`
	Docs    string `json:"docs"`
	Console string `json:"console"`
	Account string `json:"account"`
}

// root serves GET /. A browser is sent to the console, which shows the way to the sign-in page, or is
// told how the installation is set up; everybody else is told where the API is.
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

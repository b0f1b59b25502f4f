package provider

import (
	"net/http"
	"strings"

	"steward/internal/oidc/provider/endpoint"
	"steward/internal/web"
)

// links is what GET / tells programs.
type links struct {
	Service string `json:"service"`
	OpenAPI string `json:"openapi"`
	Docs    string `json:"docs"`
	Account string `json:"account"`
}

// root serves GET /. A browser is sent to the account page, which asks for a sign-in if there is none;
// everybody else is told where the API is.
func (p *Provider) root(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Redirect(w, r, endpoint.Account, http.StatusSeeOther)
		return
	}
	web.Write(w, r, http.StatusOK, links{
		Service: "Steward", OpenAPI: p.Issuer + "/openapi.json", Docs: p.Issuer + "/docs",
		Account: p.Issuer + endpoint.Account,
	})
}

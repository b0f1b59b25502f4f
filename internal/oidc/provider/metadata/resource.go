package metadata

import (
	"net/http"
	"strings"

	"steward/internal/auth"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/clientauth"
	"steward/internal/oidc/provider/oauth"
)

// resource describes the management API as a protected resource (RFC 9728).
type resource struct {
	Resource             string   `json:"resource"`
	Name                 string   `json:"resource_name"`
	AuthorizationServers []string `json:"authorization_servers"`
	Scopes               []string `json:"scopes_supported"`
	BearerMethods        []string `json:"bearer_methods_supported"`
	DPoPAlgorithms       []string `json:"dpop_signing_alg_values_supported"`
	Documentation        string   `json:"resource_documentation"`
}

// Resource serves /.well-known/oauth-protected-resource.
func (h *Handler) Resource(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "public, max-age=300")
	oauth.WriteEncoded(w, http.StatusOK, h.resource)
}

func (h *Handler) resourceDocument() resource {
	var scopes []string // only read scopes: clients request every scope in this list
	for _, s := range oidc.Scopes() {
		if auth.IsScope(s.Name) && strings.HasSuffix(s.Name, ":read") {
			scopes = append(scopes, s.Name)
		}
	}
	return resource{
		Resource:             h.issuer,
		Name:                 "Steward",
		AuthorizationServers: []string{h.issuer},
		Scopes:               scopes,
		BearerMethods:        []string{"header"},
		DPoPAlgorithms:       clientauth.ProofAlgorithms(),
		Documentation:        h.issuer + "/docs",
	}
}

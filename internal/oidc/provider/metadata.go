package provider

import (
	"net/http"

	"steward/internal/oidc"
)

// metadataBody is the document of OpenID Connect Discovery and RFC 8414: one document serves both.
type metadataBody struct {
	Issuer                   string   `json:"issuer"`
	AuthorizationEndpoint    string   `json:"authorization_endpoint"`
	TokenEndpoint            string   `json:"token_endpoint"`
	UserinfoEndpoint         string   `json:"userinfo_endpoint"`
	JWKSURI                  string   `json:"jwks_uri"`
	IntrospectionEndpoint    string   `json:"introspection_endpoint"`
	RevocationEndpoint       string   `json:"revocation_endpoint"`
	EndSessionEndpoint       string   `json:"end_session_endpoint"`
	PAREndpoint              string   `json:"pushed_authorization_request_endpoint"`
	DeviceEndpoint           string   `json:"device_authorization_endpoint"`
	Scopes                   []string `json:"scopes_supported"`
	ResponseTypes            []string `json:"response_types_supported"`
	ResponseModes            []string `json:"response_modes_supported"`
	GrantTypes               []string `json:"grant_types_supported"`
	SubjectTypes             []string `json:"subject_types_supported"`
	IDTokenAlgs              []string `json:"id_token_signing_alg_values_supported"`
	TokenAuthMethods         []string `json:"token_endpoint_auth_methods_supported"`
	IntrospectionAuthMethods []string `json:"introspection_endpoint_auth_methods_supported"`
	RevocationAuthMethods    []string `json:"revocation_endpoint_auth_methods_supported"`
	Claims                   []string `json:"claims_supported"`
	ChallengeMethods         []string `json:"code_challenge_methods_supported"`
	DPoPAlgs                 []string `json:"dpop_signing_alg_values_supported"`
	Prompts                  []string `json:"prompt_values_supported"`
	IssuerInAnswers          bool     `json:"authorization_response_iss_parameter_supported"`
	ClaimsParameter          bool     `json:"claims_parameter_supported"`
	RequestParameter         bool     `json:"request_parameter_supported"`
	RequestURIParameter      bool     `json:"request_uri_parameter_supported"`
	RequirePushed            bool     `json:"require_pushed_authorization_requests"`
	TLSBoundTokens           bool     `json:"tls_client_certificate_bound_access_tokens"`
	ServiceDocumentation     string   `json:"service_documentation"`
}

// metadata answers /.well-known/openid-configuration and /.well-known/oauth-authorization-server.
func (p *Provider) metadata(w http.ResponseWriter, _ *http.Request) {
	at := func(path string) string { return p.Issuer + path }
	var scopes, algs []string
	for _, s := range oidc.Scopes() {
		scopes = append(scopes, s.Name)
	}
	for _, a := range proofAlgs {
		algs = append(algs, string(a))
	}
	secrets := []string{"client_secret_basic", "client_secret_post"}
	w.Header().Set("Cache-Control", "public, max-age=300")
	sendJSON(w, http.StatusOK, metadataBody{
		Issuer: p.Issuer, AuthorizationEndpoint: at(pathAuthorize), TokenEndpoint: at(pathToken), UserinfoEndpoint: at(pathUserinfo),
		JWKSURI: at(pathJWKS), IntrospectionEndpoint: at(pathIntrospect), RevocationEndpoint: at(pathRevoke),
		EndSessionEndpoint: at(pathEndSession), PAREndpoint: at(pathPAR), DeviceEndpoint: at(pathDeviceAuth),
		Scopes: scopes, ResponseTypes: []string{"code"}, ResponseModes: []string{"query"},
		GrantTypes:   []string{oidc.AuthorizationCode, oidc.RefreshToken, oidc.ClientCredentials, oidc.DeviceCode},
		SubjectTypes: []string{"public"}, IDTokenAlgs: []string{string(idAlg)},
		TokenAuthMethods: append(secrets, "none"), IntrospectionAuthMethods: secrets, RevocationAuthMethods: append(secrets, "none"),
		Claims: []string{
			"sub", "iss", "aud", "exp", "iat", "auth_time", "nonce", "at_hash", "sid",
			"name", "given_name", "family_name", "picture", "updated_at", "email",
		},
		ChallengeMethods: []string{"S256"}, DPoPAlgs: algs, Prompts: []string{promptNone, promptLogin, promptConsent, promptSelect},
		IssuerInAnswers: true, ServiceDocumentation: p.Issuer + "/docs",
	})
}

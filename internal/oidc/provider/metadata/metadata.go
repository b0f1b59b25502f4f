// Package metadata publishes the provider's description: the discovery document, the public keys, and
// the management API's metadata. It also owns the CORS headers for the endpoints that browser
// applications use.
package metadata

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"steward/internal/auth"
	"steward/internal/oidc"
	"steward/internal/oidc/keys"
	"steward/internal/oidc/provider/clientauth"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
)

// Handler serves the metadata.
type Handler struct {
	issuer    string
	keys      *keys.Store
	discovery []byte
	resource  []byte
	// registration reports whether there is a registration endpoint.
	registration bool
}

// New returns a handler. registration says whether clients can register themselves. The discovery
// document does not change while the process runs.
func New(issuer string, k *keys.Store, registration bool) (*Handler, error) {
	h := &Handler{issuer: issuer, keys: k, registration: registration}
	var err error
	if h.discovery, err = json.Marshal(h.document()); err != nil {
		return nil, fmt.Errorf("encode discovery document: %w", err)
	}
	if h.resource, err = json.Marshal(h.resourceDocument()); err != nil {
		return nil, fmt.Errorf("encode resource metadata: %w", err)
	}
	return h, nil
}

// document serves both OpenID Connect Discovery and RFC 8414.
type document struct {
	Issuer                   string   `json:"issuer"`
	AuthorizationEndpoint    string   `json:"authorization_endpoint"`
	TokenEndpoint            string   `json:"token_endpoint"`
	UserInfoEndpoint         string   `json:"userinfo_endpoint"`
	JWKSURI                  string   `json:"jwks_uri"`
	IntrospectionEndpoint    string   `json:"introspection_endpoint"`
	RevocationEndpoint       string   `json:"revocation_endpoint"`
	EndSessionEndpoint       string   `json:"end_session_endpoint"`
	PushedEndpoint           string   `json:"pushed_authorization_request_endpoint"`
	DeviceEndpoint           string   `json:"device_authorization_endpoint"`
	Scopes                   []string `json:"scopes_supported"`
	ResponseTypes            []string `json:"response_types_supported"`
	ResponseModes            []string `json:"response_modes_supported"`
	GrantTypes               []string `json:"grant_types_supported"`
	SubjectTypes             []string `json:"subject_types_supported"`
	IDTokenAlgorithms        []string `json:"id_token_signing_alg_values_supported"`
	TokenAuthMethods         []string `json:"token_endpoint_auth_methods_supported"`
	IntrospectionAuthMethods []string `json:"introspection_endpoint_auth_methods_supported"`
	RevocationAuthMethods    []string `json:"revocation_endpoint_auth_methods_supported"`
	TokenAuthAlgorithms      []string `json:"token_endpoint_auth_signing_alg_values_supported"`
	IntrospectionAlgorithms  []string `json:"introspection_endpoint_auth_signing_alg_values_supported"`
	RevocationAlgorithms     []string `json:"revocation_endpoint_auth_signing_alg_values_supported"`
	Claims                   []string `json:"claims_supported"`
	ChallengeMethods         []string `json:"code_challenge_methods_supported"`
	DPoPAlgorithms           []string `json:"dpop_signing_alg_values_supported"`
	Prompts                  []string `json:"prompt_values_supported"`
	ContextClasses           []string `json:"acr_values_supported"`
	IssuerInResponses        bool     `json:"authorization_response_iss_parameter_supported"`
	ClaimsParameter          bool     `json:"claims_parameter_supported"`
	RequestParameter         bool     `json:"request_parameter_supported"`
	RequestURIParameter      bool     `json:"request_uri_parameter_supported"`
	RequirePushed            bool     `json:"require_pushed_authorization_requests"`
	TLSBoundTokens           bool     `json:"tls_client_certificate_bound_access_tokens"`
	BackchannelLogout        bool     `json:"backchannel_logout_supported"`
	BackchannelSession       bool     `json:"backchannel_logout_session_supported"`
	FrontchannelLogout       bool     `json:"frontchannel_logout_supported"`
	FrontchannelSession      bool     `json:"frontchannel_logout_session_supported"`
	ServiceDocumentation     string   `json:"service_documentation"`
	RegistrationEndpoint     string   `json:"registration_endpoint,omitempty"`
	ClientDocuments          bool     `json:"client_id_metadata_document_supported,omitempty"`
}

// Discovery serves /.well-known/openid-configuration and /.well-known/oauth-authorization-server.
func (h *Handler) Discovery(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "public, max-age=300")
	oauth.WriteEncoded(w, http.StatusOK, h.discovery)
}

func (h *Handler) document() document {
	allMethods := oidc.AuthMethods()
	confidentialMethods := slices.DeleteFunc(oidc.AuthMethods(), func(m string) bool { return m == string(oidc.NoAuth) })
	var registrationEndpoint string
	if h.registration {
		registrationEndpoint = h.issuer + oauth.PathRegister
	}
	return document{
		Issuer:                   h.issuer,
		AuthorizationEndpoint:    h.issuer + oauth.PathAuthorize,
		TokenEndpoint:            h.issuer + oauth.PathToken,
		UserInfoEndpoint:         h.issuer + oauth.PathUserInfo,
		JWKSURI:                  h.issuer + oauth.PathJWKS,
		IntrospectionEndpoint:    h.issuer + oauth.PathIntrospect,
		RevocationEndpoint:       h.issuer + oauth.PathRevoke,
		EndSessionEndpoint:       h.issuer + oauth.PathEndSession,
		PushedEndpoint:           h.issuer + oauth.PathPushedAuthorization,
		DeviceEndpoint:           h.issuer + oauth.PathDeviceAuthorization,
		Scopes:                   scopeNames(),
		ResponseTypes:            []string{"code"},
		ResponseModes:            []string{flow.Query, flow.FormPost},
		GrantTypes:               oidc.GrantTypes(),
		SubjectTypes:             []string{"public"},
		IDTokenAlgorithms:        []string{string(keys.ForIDTokens)},
		TokenAuthMethods:         allMethods,
		IntrospectionAuthMethods: confidentialMethods,
		RevocationAuthMethods:    allMethods,
		TokenAuthAlgorithms:      clientauth.Algorithms(),
		IntrospectionAlgorithms:  clientauth.Algorithms(),
		RevocationAlgorithms:     clientauth.Algorithms(),
		Claims: []string{
			"sub", "iss", "aud", "exp", "iat", "auth_time", "acr", "amr", "nonce", "at_hash", "sid",
			"name", "given_name", "family_name", "picture", "updated_at", "email", "email_verified",
			"org_id", "org_name", "role", "groups",
		},
		ContextClasses:       oauth.Levels(),
		ChallengeMethods:     []string{"S256"},
		DPoPAlgorithms:       clientauth.ProofAlgorithms(),
		Prompts:              flow.Prompts(),
		IssuerInResponses:    true,
		BackchannelLogout:    true,
		BackchannelSession:   true,
		FrontchannelLogout:   true,
		FrontchannelSession:  true,
		ServiceDocumentation: h.issuer + "/docs",
		RegistrationEndpoint: registrationEndpoint,
		ClientDocuments:      h.registration,
	}
}

func scopeNames() []string {
	var names []string
	for _, s := range oidc.Scopes() {
		names = append(names, s.Name)
	}
	return names
}

// JWKS serves GET /jwks. Relying parties may cache the keys for less time than we publish a new key
// before it signs.
func (h *Handler) JWKS(w http.ResponseWriter, r *http.Request) {
	set, err := h.keys.Set(r.Context())
	if err != nil {
		oauth.WriteError(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(keys.CacheTime.Seconds())))
	oauth.WriteEncoded(w, http.StatusOK, set.Published())
}

// CORS allows scripts from all origins to use an endpoint. Such an endpoint must not read cookies, so
// no user is exposed.
func CORS(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Expose-Headers", "WWW-Authenticate, "+clientauth.NonceHeader)
		next(w, r)
	}
}

// Preflight serves browsers' OPTIONS requests. Wrap it in CORS.
func Preflight(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, DPoP")
	h.Set("Access-Control-Max-Age", "86400")
	w.WriteHeader(http.StatusNoContent)
}

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

package register

import (
	"cmp"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"steward/internal/decode"
	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/page"
)

// maxBody caps the metadata's size in bytes.
const maxBody = 64 << 10

// unnamed is the name of clients that do not give one.
const unnamed = "Unnamed application"

// metadata describes a client (RFC 7591 section 2), in a request and in the response. We ignore other
// members, as the RFC allows.
type metadata struct {
	ClientID               string          `json:"client_id,omitempty"`
	ClientSecret           string          `json:"client_secret,omitempty"`
	RedirectURIs           []string        `json:"redirect_uris"`
	AuthMethod             oidc.AuthMethod `json:"token_endpoint_auth_method"`
	GrantTypes             []string        `json:"grant_types"`
	ResponseTypes          []string        `json:"response_types"`
	Name                   string          `json:"client_name"`
	URI                    string          `json:"client_uri"`
	Scope                  string          `json:"scope"`
	JWKS                   *oidc.KeySet    `json:"jwks,omitempty"`
	JWKSURI                *string         `json:"jwks_uri,omitempty"`
	PostLogoutRedirectURIs []string        `json:"post_logout_redirect_uris,omitempty"`
	BackchannelLogoutURI   *string         `json:"backchannel_logout_uri,omitempty"`
	FrontchannelLogoutURI  *string         `json:"frontchannel_logout_uri,omitempty"`
}

// information is the response that describes a client (RFC 7591 section 3.2.1, RFC 7592 section 3).
type information struct {
	metadata
	IssuedAt      int64  `json:"client_id_issued_at"`
	SecretExpires *int64 `json:"client_secret_expires_at,omitempty"`
	Token         string `json:"registration_access_token"`
	ConfigURI     string `json:"registration_client_uri"`
}

// setSecret adds a secret that does not expire, unless it is empty. We do not store it, so only the
// response that makes it has it.
func (i *information) setSecret(secret string) {
	if secret != "" {
		i.ClientSecret = secret
		i.SecretExpires = new(int64)
	}
}

// information returns a client as it sees itself, with the token that it presents.
func (h *Handler) information(c oidc.Client, token string) information {
	return information{
		metadata: metadata{
			ClientID: c.ID, RedirectURIs: c.RedirectURIs, AuthMethod: c.AuthMethod, GrantTypes: c.GrantTypes,
			ResponseTypes: c.ResponseTypes, Name: c.Name, URI: c.HomepageURL, Scope: strings.Join(c.Scopes, " "),
			JWKS: c.JWKS, JWKSURI: c.JWKSURI, PostLogoutRedirectURIs: c.PostLogoutRedirectURIs,
			BackchannelLogoutURI: c.BackchannelLogoutURI, FrontchannelLogoutURI: c.FrontchannelLogoutURI,
		},
		IssuedAt: c.CreatedAt.Std().Unix(), Token: token, ConfigURI: h.Issuer + oauth.PathRegister + "/" + c.ID,
	}
}

// readMetadata reads the metadata in a request and fills in defaults.
func readMetadata(w http.ResponseWriter, r *http.Request) (metadata, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return metadata{}, oauth.NewError(invalidMetadata, "the body must be application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return metadata{}, oauth.NewError(invalidMetadata, "the body is incomplete or too large")
	}
	if !utf8.Valid(body) || !json.Valid(body) || !strings.HasPrefix(strings.TrimSpace(string(body)), "{") {
		return metadata{}, oauth.NewError(invalidMetadata, "the body must be a JSON object")
	}
	var m metadata
	var faults errs.Faults
	decode.Into(&faults, "body", body, &m)
	if err := faults.Err(); err != nil {
		return metadata{}, err
	}
	if len(m.RedirectURIs) == 0 {
		return metadata{}, oauth.NewError(invalidRedirectURI, "redirect_uris: expected at least one URI")
	}
	m.AuthMethod = cmp.Or(m.AuthMethod, oidc.SecretBasic)
	m.Name = cmp.Or(m.Name, unnamed)
	m.URI = cmp.Or(m.URI, originOf(m.RedirectURIs[0]))
	if m.GrantTypes == nil {
		m.GrantTypes = []string{oidc.AuthorizationCode}
	}
	if m.ResponseTypes == nil {
		m.ResponseTypes = []string{"code"}
	}
	if m.PostLogoutRedirectURIs == nil {
		m.PostLogoutRedirectURIs = []string{}
	}
	return m, nil
}

// originOf returns a redirect URI's origin, as the home page for a client that gives none. A
// private-use scheme belongs to an application on the user's machine.
func originOf(redirectURI string) string {
	u, err := url.Parse(redirectURI)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return "http://localhost"
	}
	return u.Scheme + "://" + u.Host
}

// scopes returns the scopes in the metadata, or else the default ones, which give no access to our API.
func (m *metadata) scopes() []string {
	if scopes := strings.Fields(m.Scope); len(scopes) > 0 {
		return scopes
	}
	return oidc.DefaultScopes()
}

func (m *metadata) newClient() oidc.NewClient {
	return oidc.NewClient{Name: m.Name, HomepageURL: m.URI, Settings: m.settings()}
}

// patch returns the update that replaces the client's metadata.
func (m *metadata) patch() oidc.ClientPatch {
	return oidc.ClientPatch{Name: page.Some(m.Name), HomepageURL: page.Some(m.URI), Settings: m.settings()}
}

// settings returns all settings that a client controls itself.
func (m *metadata) settings() oidc.Settings {
	return oidc.Settings{
		RedirectURIs:           page.Some(m.RedirectURIs),
		PostLogoutRedirectURIs: page.Some(m.PostLogoutRedirectURIs),
		GrantTypes:             page.Some(m.GrantTypes),
		ResponseTypes:          page.Some(m.ResponseTypes),
		Scopes:                 page.Some(m.scopes()),
		AuthMethod:             page.Some(m.AuthMethod),
		JWKS:                   page.FromPtr(m.JWKS),
		JWKSURI:                page.FromPtr(m.JWKSURI),
		BackchannelLogoutURI:   page.FromPtr(m.BackchannelLogoutURI),
		FrontchannelLogoutURI:  page.FromPtr(m.FrontchannelLogoutURI),
	}
}

// names maps a client's fields to their names in RFC 7591, where they differ.
var names = map[string]string{
	"name": "client_name", "homepage_url": "client_uri", "scopes": "scope", "client_type": "token_endpoint_auth_method",
}

// maxFaults caps the faults that an error describes.
const maxFaults = 5

// metadataError returns the error response for a client's faults.
func metadataError(e *errs.Error) *oauth.Error {
	code := invalidMetadata
	var described []string
	for _, f := range e.Faults {
		location := strings.TrimPrefix(f.Location, "body.")
		field, rest := location, ""
		if end := strings.IndexAny(location, "[."); end >= 0 {
			field, rest = location[:end], location[end:]
		}
		if field == "redirect_uris" {
			code = invalidRedirectURI
		}
		if len(described) < maxFaults {
			described = append(described, cmp.Or(names[field], field)+rest+": "+f.Message)
		}
	}
	return oauth.NewError(code, cmp.Or(strings.Join(described, "; "), e.Message))
}

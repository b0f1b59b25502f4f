package oidc

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"steward/internal/errs"
	"steward/internal/page"
)

// Document is a Client ID Metadata Document (draft-ietf-oauth-client-id-metadata-document): its URI is
// the client_id, and its content describes the client.
type Document struct {
	URI    string
	client NewClient
	// Fresh limits how long we may use the document before requesting it again.
	Fresh time.Duration
}

// IsDocumentURI reports whether a client_id is a document's URI: https, with a path without dot
// segments, and with neither a user name nor a fragment.
func IsDocumentURI(clientID string) bool {
	u, err := url.Parse(clientID)
	if err != nil || u.Scheme != "https" || !strings.HasPrefix(clientID, "https://") || u.Path == "" {
		return false
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return false
		}
	}
	return isPlainURI(clientID) && u.User == nil && hasHost(u) && !strings.Contains(clientID, "#")
}

// documentMetadata has the members that we read from a document (RFC 7591 section 2).
type documentMetadata struct {
	ClientID     string          `json:"client_id"`
	Secret       json.RawMessage `json:"client_secret"`
	Name         string          `json:"client_name"`
	RedirectURIs []string        `json:"redirect_uris"`
	AuthMethod   AuthMethod      `json:"token_endpoint_auth_method"`
	GrantTypes   []string        `json:"grant_types"`
	Types        []string        `json:"response_types"`
	Scope        string          `json:"scope"`
	JWKS         *KeySet         `json:"jwks"`
	JWKSURI      *string         `json:"jwks_uri"`
	LogoutURIs   []string        `json:"post_logout_redirect_uris"`
}

// ParseDocument parses the document at a URI. It returns Invalid, listing all faults.
func ParseDocument(uri string, text []byte, fresh time.Duration) (Document, error) {
	var m documentMetadata
	if err := json.Unmarshal(text, &m); err != nil {
		return Document{}, errs.InvalidField("body", "expected a JSON object with the metadata of a client")
	}
	var faults errs.Faults
	faults.Check(m.ClientID == uri, "body.client_id", "expected the URL of the document")
	faults.Check(m.Secret == nil, "body.client_secret", "expected none: everybody can read the document")
	faults.Check(len(m.RedirectURIs) > 0, "body.redirect_uris", "expected at least one URI")
	faults.Check(m.GrantTypes == nil || slices.Contains(m.GrantTypes, AuthorizationCode), "body.grant_types",
		"expected %s", AuthorizationCode)
	faults.Check(m.Types == nil || slices.Contains(m.Types, "code"), "body.response_types", "expected code")
	d := Document{URI: uri, client: m.newClient(uri), Fresh: fresh}
	d.client.Check(&faults)
	return d, faults.Err()
}

// newClient returns the client that the metadata describe. A document is written for every
// authorization server, so we leave out list entries that mean nothing to us. Without a scope member,
// the client may request any scope, and we ask its users each time. The home page is the document's
// host, since the document could claim any other.
func (m *documentMetadata) newClient(uri string) NewClient {
	u, err := url.Parse(uri)
	if err != nil {
		panic(err) // IsDocumentURI has parsed it
	}
	n := NewClient{Name: m.Name, HomepageURL: "https://" + u.Host, registration: ByDocument, document: uri}
	if n.Name == "" {
		n.Name = u.Host
	}
	if m.AuthMethod == "" {
		m.AuthMethod = NoAuth
	}
	if m.AuthMethod != PrivateKeyJWT {
		m.JWKS = nil
		m.JWKSURI = nil
	}
	grants := RegistrableGrantTypes()
	if m.GrantTypes != nil {
		grants = slices.DeleteFunc(grants, func(g string) bool { return !slices.Contains(m.GrantTypes, g) })
	}
	requested := strings.Fields(m.Scope)
	scopes := []string{}
	for _, s := range Scopes() {
		if len(requested) == 0 || slices.Contains(requested, s.Name) {
			scopes = append(scopes, s.Name)
		}
	}
	n.Settings = Settings{
		RedirectURIs: page.Some(m.RedirectURIs), PostLogoutRedirectURIs: page.Some(append([]string{}, m.LogoutURIs...)),
		GrantTypes: page.Some(grants), Scopes: page.Some(scopes), AuthMethod: page.Some(m.AuthMethod),
		JWKS: page.FromPtr(m.JWKS), JWKSURI: page.FromPtr(m.JWKSURI),
	}
	return n
}

// validateDocument checks the rules for clients that a document describes.
func (c *Client) validateDocument(faults *errs.Faults) {
	faults.Check(c.AuthMethod == NoAuth || c.AuthMethod == PrivateKeyJWT, "body.token_endpoint_auth_method",
		"expected none or private_key_jwt: there is nobody to share a secret with")
	document, err := url.Parse(*c.DocumentURI)
	if err != nil {
		panic(err) // IsDocumentURI has parsed it
	}
	for _, list := range []struct {
		location string
		uris     []string
	}{{"body.redirect_uris", c.RedirectURIs}, {"body.post_logout_redirect_uris", c.PostLogoutRedirectURIs}} {
		for i, uri := range list.uris {
			if i == maxURIs {
				break // too many, which is another fault
			}
			u, err := url.Parse(uri)
			faults.Check(err == nil && (u.Scheme == "https" && strings.EqualFold(u.Hostname(), document.Hostname()) ||
				u.Scheme == "http" && isLocal(u.Hostname())), entry(list.location, i),
				"expected https and the host of the document, or http and a loopback address or localhost")
		}
	}
}

// ProtocolID returns the client_id: the document's URI if a document describes the client, otherwise
// its id.
func (c *Client) ProtocolID() string {
	if c.DocumentURI != nil {
		return *c.DocumentURI
	}
	return c.ID
}

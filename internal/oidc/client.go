package oidc

import (
	"crypto/subtle"
	"slices"
	"strings"
	"time"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Type says whether a client can keep a secret.
type Type string

// The client types. An update that changes the type creates or removes the secret.
const (
	Confidential Type = "confidential"
	Public       Type = "public"
)

// responseTypes is the same for all clients.
var responseTypes = []string{"code"}

// Token lifetimes in seconds: bounds and defaults.
const (
	MinTokenLifetime       = 60
	MaxTokenLifetime       = 86_400
	DefaultTokenLifetime   = 3_600
	MinRefreshLifetime     = 300
	MaxRefreshLifetime     = 31_536_000
	DefaultRefreshLifetime = 2_592_000
)

// Client is an OAuth client, without its secret.
type Client struct {
	_ struct{} `goName:"OAuthClient"`

	ID                     string     `json:"id" example:"oac_01jcq3w7y2b5d8f1h4k7n0q3st"`
	Name                   string     `json:"name" example:"Helpdesk"`
	Description            string     `json:"description" example:"Answers questions of customers"`
	HomepageURL            string     `json:"homepage_url" example:"https://helpdesk.example.com"`
	Icon                   *string    `json:"icon" example:"https://helpdesk.example.com/icon.png"`
	ClientType             Type       `json:"client_type" enum:"confidential,public"`
	RedirectURIs           []string   `json:"redirect_uris" example:"https://helpdesk.example.com/callback"`
	PostLogoutRedirectURIs []string   `json:"post_logout_redirect_uris" example:"https://helpdesk.example.com/signed-out"`
	GrantTypes             []string   `json:"grant_types" example:"authorization_code,refresh_token"`
	ResponseTypes          []string   `json:"response_types" example:"code"`
	Scopes                 []string   `json:"scopes" example:"openid,profile,thread:read"`
	OrgID                  string     `json:"org_id,omitempty" example:"org_01jcq3r0b3d6g9j2m5p8s1v4xz"`
	ProjectID              *string    `json:"project_id,omitempty" example:"prj_01jcq3q9z1b4d7g0j3m6p9s2vw"`
	AccessSeconds          *int64     `json:"access_token_lifetime_seconds,omitempty" example:"3600"`
	RefreshSeconds         *int64     `json:"refresh_token_lifetime_seconds,omitempty" example:"2592000"`
	IDSeconds              *int64     `json:"id_token_lifetime_seconds,omitempty" example:"3600"`
	AllowedUserIDs         []string   `json:"allowed_user_ids" doc:"Users who may use the client; empty for all users" example:"usr_01jcq3s1d4f8k2m6p9r3t7v0wx"`
	Internal               bool       `json:"internal"`
	IsPublic               bool       `json:"is_public" doc:"Whether users outside the organization may use the client"`
	Audience               *string    `json:"audience,omitempty" doc:"URI of the API that the client serves; it may introspect tokens issued for this audience" example:"https://api.example.com"`
	AllowedClients         []string   `json:"allowed_clients" doc:"Clients of other organizations that may get tokens for the audience with client_credentials or by token exchange; those of the same organization always may" example:"oac_01jcq3v6x1c4f7h0k3n6q9s2ty"`
	BackchannelLogoutURI   *string    `json:"backchannel_logout_uri,omitempty" doc:"URI that gets a logout token when a session ends in which the client got an ID token" example:"https://helpdesk.example.com/backchannel-logout"`
	FrontchannelLogoutURI  *string    `json:"frontchannel_logout_uri,omitempty" doc:"URI that the browser loads when its user signs out of a session in which the client got an ID token" example:"https://helpdesk.example.com/frontchannel-logout"`
	AuthMethod             AuthMethod `json:"token_endpoint_auth_method" enum:"client_secret_basic,client_secret_post,private_key_jwt,none" doc:"How the client authenticates; a secret is accepted in the header and in the form, whichever of the two is set"`
	JWKS                   *KeySet    `json:"jwks,omitempty" doc:"Public keys of a client that authenticates with private_key_jwt"`
	JWKSURI                *string    `json:"jwks_uri,omitempty" doc:"URI of the public keys of a client that authenticates with private_key_jwt" example:"https://helpdesk.example.com/jwks.json"`
	CreatedAt              stamp.Time `json:"created_at" format:"date-time"`
	UpdatedAt              stamp.Time `json:"updated_at" format:"date-time"`

	Registration Registration `json:"registration,omitempty" enum:"token,anonymous,document" doc:"How the client registered itself; absent if a user created it"`
	DocumentURI  *string      `json:"document_uri,omitempty" doc:"URL of the document that describes the client, which applications use as its client_id" example:"https://editor.example.com/client.json"`

	version int64
	// documentExpires is the time when we must request the document again.
	documentExpires *stamp.Time
	// redirectsSince maps each redirect URI to the client version that added it. It lacks URIs from
	// before we recorded versions.
	redirectsSince map[string]int64
}

// ETag returns the row's version. Consents and activity do not change it.
func (c Client) ETag() string { return page.ETag(c.version) }

// AccessLifetime returns how long the client's access tokens live.
func (c *Client) AccessLifetime() time.Duration {
	return seconds(c.AccessSeconds, DefaultTokenLifetime)
}

// RefreshLifetime returns how long the client's refresh tokens live.
func (c *Client) RefreshLifetime() time.Duration {
	return seconds(c.RefreshSeconds, DefaultRefreshLifetime)
}

// IDLifetime returns how long the client's ID tokens live.
func (c *Client) IDLifetime() time.Duration { return seconds(c.IDSeconds, DefaultTokenLifetime) }

func seconds(n *int64, otherwise int64) time.Duration {
	if n != nil {
		otherwise = *n
	}
	return time.Duration(otherwise) * time.Second
}

// AllowedScopes returns the requested scopes that the client may use, without repetitions. An empty
// request means all the client's scopes; if a document describes the client, it means only those
// outside our API, because a document is written for every server.
func (c *Client) AllowedScopes(requested string) []string {
	if strings.TrimSpace(requested) == "" {
		return slices.DeleteFunc(slices.Clone(c.Scopes), func(s string) bool { return c.DocumentURI != nil && auth.IsScope(s) })
	}
	var allowed []string
	for s := range strings.FieldsSeq(requested) {
		if slices.Contains(c.Scopes, s) && !slices.Contains(allowed, s) {
			allowed = append(allowed, s)
		}
	}
	return allowed
}

// ClientDetails is a client with its usage.
type ClientDetails struct {
	_ struct{} `goName:"OAuthClientDetails"`

	Client
	UserCount    int64       `json:"user_count" doc:"Number of users with a consent" example:"12"`
	LastActivity *stamp.Time `json:"last_activity" format:"date-time" doc:"Time of the last token or userinfo request"`
	Link         string      `json:"link" doc:"URL of the client in the console" example:"https://steward.example.com/console/oauth/clients/oac_01jcq3w7y2b5d8f1h4k7n0q3st"`
}

// MovesWithoutVersion implements page.Moving, for UserCount and LastActivity.
func (ClientDetails) MovesWithoutVersion() {}

// Created is the response to creating a client, and the only one that shows its secret. The secret is
// empty for public clients and for clients that authenticate with a key.
type Created struct {
	_ struct{} `goName:"CreatedOAuthClient"`

	Client       Client `json:"client"`
	ClientSecret string `json:"client_secret" example:"4fVq0hXz7Lr2mTb9KcW1sYpD6uJ3nEa8GiO5vRkB2dM"`
}

// ETag returns the client's ETag.
func (c Created) ETag() string { return c.Client.ETag() }

// Updated is the response to updating a client. It has a secret if the update gave the client one.
type Updated struct {
	_ struct{} `goName:"UpdatedOAuthClient"`

	Client       Client `json:"client"`
	ClientSecret string `json:"client_secret,omitempty" example:"4fVq0hXz7Lr2mTb9KcW1sYpD6uJ3nEa8GiO5vRkB2dM"`
}

// ETag returns the client's ETag.
func (u Updated) ETag() string { return u.Client.ETag() }

// Rotated is the response to rotating a secret.
type Rotated struct {
	_ struct{} `goName:"RotatedSecret"`

	ClientID     string `json:"client_id" example:"oac_01jcq3w7y2b5d8f1h4k7n0q3st"`
	ClientSecret string `json:"client_secret" example:"4fVq0hXz7Lr2mTb9KcW1sYpD6uJ3nEa8GiO5vRkB2dM"`
}

// Settings holds the optional fields of create and update.
type Settings struct {
	Icon                   page.Opt[string]     `json:"icon,omitempty" example:"https://helpdesk.example.com/icon.png"`
	ClientType             page.Opt[Type]       `json:"client_type,omitempty" nullable:"false" doc:"confidential (default) or public" example:"confidential"`
	RedirectURIs           page.Opt[[]string]   `json:"redirect_uris,omitempty" maxItems:"100" nullable:"false" example:"https://helpdesk.example.com/callback"`
	PostLogoutRedirectURIs page.Opt[[]string]   `json:"post_logout_redirect_uris,omitempty" maxItems:"100" nullable:"false" example:"https://helpdesk.example.com/signed-out"`
	GrantTypes             page.Opt[[]string]   `json:"grant_types,omitempty" maxItems:"100" nullable:"false" example:"authorization_code,refresh_token"`
	ResponseTypes          page.Opt[[]string]   `json:"response_types,omitempty" maxItems:"100" nullable:"false" example:"code"`
	Scopes                 page.Opt[[]string]   `json:"scopes,omitempty" maxItems:"1000" nullable:"false" example:"openid,profile,thread:read"`
	ProjectID              page.Opt[string]     `json:"project_id,omitempty" example:"prj_01jcq3q9z1b4d7g0j3m6p9s2vw"`
	AccessSeconds          page.Opt[int64]      `json:"access_token_lifetime_seconds,omitempty" example:"3600"`
	RefreshSeconds         page.Opt[int64]      `json:"refresh_token_lifetime_seconds,omitempty" example:"2592000"`
	IDSeconds              page.Opt[int64]      `json:"id_token_lifetime_seconds,omitempty" example:"3600"`
	AllowedUserIDs         page.Opt[[]string]   `json:"allowed_user_ids,omitempty" maxItems:"10000" nullable:"false" example:"usr_01jcq3s1d4f8k2m6p9r3t7v0wx"`
	IsPublic               page.Opt[bool]       `json:"is_public,omitempty" nullable:"false"`
	Audience               page.Opt[string]     `json:"audience,omitempty" doc:"URI of the API that the client serves, for confidential clients only; no other client may have it" example:"https://api.example.com"`
	AllowedClients         page.Opt[[]string]   `json:"allowed_clients,omitempty" maxItems:"1000" nullable:"false" doc:"Clients of other organizations that may get tokens for the audience with client_credentials or by token exchange; those of the same organization always may" example:"oac_01jcq3v6x1c4f7h0k3n6q9s2ty"`
	BackchannelLogoutURI   page.Opt[string]     `json:"backchannel_logout_uri,omitempty" doc:"URI that gets a logout token when a session ends in which the client got an ID token" example:"https://helpdesk.example.com/backchannel-logout"`
	FrontchannelLogoutURI  page.Opt[string]     `json:"frontchannel_logout_uri,omitempty" doc:"URI that the browser loads when its user signs out of a session in which the client got an ID token" example:"https://helpdesk.example.com/frontchannel-logout"`
	AuthMethod             page.Opt[AuthMethod] `json:"token_endpoint_auth_method,omitempty" nullable:"false" doc:"client_secret_basic (default), client_secret_post, private_key_jwt or, for public clients, none" example:"private_key_jwt"`
	JWKS                   page.Opt[KeySet]     `json:"jwks,omitempty" doc:"Public keys for private_key_jwt, instead of jwks_uri"`
	JWKSURI                page.Opt[string]     `json:"jwks_uri,omitempty" doc:"URI of the public keys for private_key_jwt, instead of jwks" example:"https://helpdesk.example.com/jwks.json"`
}

// NewClient is a request to create a client. Null means absent.
type NewClient struct {
	_ struct{} `goName:"NewOAuthClient"`

	Name        string `json:"name" example:"Helpdesk"`
	Description string `json:"description" example:"Answers questions of customers"`
	HomepageURL string `json:"homepage_url" example:"https://helpdesk.example.com"`
	Settings

	registration Registration
	document     string // URI, if a document describes the client
}

// ClientPatch is a request to update a client. Absent fields stay as they are. Null clears the icon,
// the project, the audience, the logout URIs, the keys and the lifetimes, and is invalid elsewhere.
type ClientPatch struct {
	_ struct{} `goName:"OAuthClientPatch"`

	Name        page.Opt[string] `json:"name,omitempty" nullable:"false" example:"Helpdesk"`
	Description page.Opt[string] `json:"description,omitempty" nullable:"false" example:"Answers questions of customers"`
	HomepageURL page.Opt[string] `json:"homepage_url,omitempty" nullable:"false" example:"https://helpdesk.example.com"`
	Settings
}

// Check adds a fault for each rule that the request breaks.
func (n NewClient) Check(faults *errs.Faults) {
	c := n.client(time.Time{})
	c.validate(faults)
	n.validateIcon(faults)
}

// client returns the requested client, which may be invalid.
func (n NewClient) client(now time.Time) Client {
	created := stamp.Of(now)
	c := Client{
		ID: id.At(id.Client, now), Name: n.Name, Description: n.Description, HomepageURL: n.HomepageURL,
		ClientType: Confidential, AuthMethod: SecretBasic, RedirectURIs: []string{}, PostLogoutRedirectURIs: []string{},
		GrantTypes: defaultGrantTypes(), ResponseTypes: slices.Clone(responseTypes), Scopes: defaultScopes(),
		AllowedUserIDs: []string{}, AllowedClients: []string{}, IsPublic: n.registration == "", Registration: n.registration,
		CreatedAt: created, UpdatedAt: created, version: 1,
	}
	if n.document != "" {
		c.DocumentURI = &n.document
	}
	n.Settings.set(&c)
	return c
}

// build returns a new client and its secret, which is empty if the client needs none. It returns
// Invalid, listing all faults in the request.
func (n NewClient) build(now time.Time) (c Client, secret string, err error) {
	c = n.client(now)
	var faults errs.Faults
	c.validate(&faults)
	n.validateIcon(&faults)
	c.removeRepetitions()
	c.dateRedirects(Client{})
	if c.AuthMethod.hasSecret() {
		secret = newSecret()
	}
	return c, secret, faults.Err()
}

// Check adds a fault for each rule that the patch breaks for any client. It checks the rules for one
// client type only if the patch sets the type.
func (p ClientPatch) Check(faults *errs.Faults) {
	valid := NewClient{Name: "unchanged", HomepageURL: "https://unchanged.example"}
	c := p.set(valid.client(time.Time{}))
	if p.ClientType.Ptr() == nil {
		c.validateAsAny(faults)
	} else {
		c.validateFields(faults)
	}
	p.validateIcon(faults)
}

// set returns the client with the patch applied.
func (p ClientPatch) set(c Client) Client {
	p.Name.Set(&c.Name)
	p.Description.Set(&c.Description)
	p.HomepageURL.Set(&c.HomepageURL)
	p.Settings.set(&c)
	return c
}

// apply returns the client with the patch applied, and a secret if the client now needs one and had
// none. It returns Invalid, listing all faults in the request.
func (p ClientPatch) apply(before Client, now time.Time) (c Client, secret string, err error) {
	c = p.set(before)
	c.UpdatedAt = max(stamp.Of(now), before.UpdatedAt)
	c.version = before.version + 1
	var faults errs.Faults
	c.validate(&faults)
	p.validateIcon(&faults)
	c.removeRepetitions()
	c.dateRedirects(before)
	if !before.AuthMethod.hasSecret() && c.AuthMethod.hasSecret() {
		secret = newSecret()
	}
	return c, secret, faults.Err()
}

// dateRedirects records the version that added each redirect URI. A URI that was removed and added
// again counts as new.
func (c *Client) dateRedirects(before Client) {
	c.redirectsSince = map[string]int64{}
	for _, uri := range c.RedirectURIs {
		since, known := before.redirectsSince[uri]
		switch {
		case known:
			c.redirectsSince[uri] = since
		case !slices.Contains(before.RedirectURIs, uri):
			c.redirectsSince[uri] = c.version
		}
	}
}

// set copies the fields in the request to the client. Null clears fields that can be absent, and is
// ignored elsewhere.
func (s Settings) set(c *Client) {
	s.Icon.SetPtr(&c.Icon)
	s.ProjectID.SetPtr(&c.ProjectID)
	s.Audience.SetPtr(&c.Audience)
	s.BackchannelLogoutURI.SetPtr(&c.BackchannelLogoutURI)
	s.FrontchannelLogoutURI.SetPtr(&c.FrontchannelLogoutURI)
	s.AccessSeconds.SetPtr(&c.AccessSeconds)
	s.RefreshSeconds.SetPtr(&c.RefreshSeconds)
	s.IDSeconds.SetPtr(&c.IDSeconds)
	s.setAuthentication(c)
	if s.IsPublic.Ptr() != nil {
		c.IsPublic = s.IsPublic.Value
	}
	setList(s.RedirectURIs, &c.RedirectURIs)
	setList(s.PostLogoutRedirectURIs, &c.PostLogoutRedirectURIs)
	setList(s.GrantTypes, &c.GrantTypes)
	setList(s.ResponseTypes, &c.ResponseTypes)
	setList(s.Scopes, &c.Scopes)
	setList(s.AllowedUserIDs, &c.AllowedUserIDs)
	setList(s.AllowedClients, &c.AllowedClients)
}

// setList copies a list if the request has it.
func setList(sent page.Opt[[]string], dst *[]string) {
	if sent.Ptr() != nil {
		*dst = sent.Value
	}
}

// removeRepetitions removes duplicates from the client's lists. Call it after validating, so that
// faults name the indexes the request used.
func (c *Client) removeRepetitions() {
	for _, list := range []*[]string{
		&c.RedirectURIs, &c.PostLogoutRedirectURIs, &c.GrantTypes, &c.ResponseTypes, &c.Scopes, &c.AllowedUserIDs,
		&c.AllowedClients,
	} {
		*list = unique(*list)
	}
}

// unique returns the list without duplicates.
func unique(list []string) []string {
	seen := make(map[string]bool, len(list))
	kept := make([]string, 0, len(list))
	for _, v := range list {
		if !seen[v] {
			seen[v] = true
			kept = append(kept, v)
		}
	}
	return kept
}

// secretSize is the number of base62 characters that hold 256 bits.
const secretSize = 43

func newSecret() string { return id.Secret(secretSize) }

// sameSecret compares a secret with a hash in constant time. Comparing with an empty hash takes as long
// and always fails.
func sameSecret(hash []byte, presented string) bool {
	return subtle.ConstantTimeCompare(hash, seal.Hash(presented)) == 1
}

// requireScopes stops a caller restricted by scopes from getting or giving more than it has. It returns
// Forbidden if the change to a client adds scopes that the caller lacks, or gives access to a client
// that has such scopes. Creating a client counts as changing one without scopes.
func requireScopes(caller *auth.Caller, before, after Client) error {
	added := slices.DeleteFunc(slices.Clone(after.Scopes), func(s string) bool { return slices.Contains(before.Scopes, s) })
	if err := caller.RequireGrantable(added, "grant it to a client"); err != nil {
		return err
	}
	if sameAccess(before, after) {
		return nil
	}
	return requireAccess(caller, before)
}

// requireAccess returns Forbidden if a client has a scope that the caller lacks: the caller may then
// not change who gets the client's tokens or where they are valid.
func requireAccess(caller *auth.Caller, c Client) error {
	return caller.RequireGrantable(c.Scopes, "change the secret, the keys, the type, the redirect URIs, the grant types, "+
		"the audience, the allowed clients or the project of a client that has it")
}

// sameAccess reports whether two versions of a client give the same access to its tokens: type,
// authentication, redirect URIs, grant types, audience, allowed clients and project are equal.
func sameAccess(a, b Client) bool {
	return a.ClientType == b.ClientType && sameAuthentication(a, b) && sameSet(a.RedirectURIs, b.RedirectURIs) && sameSet(a.GrantTypes, b.GrantTypes) &&
		same(a.Audience, b.Audience) && sameSet(a.AllowedClients, b.AllowedClients) && same(a.ProjectID, b.ProjectID)
}

func same(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// sameAuthentication reports whether two client versions have the same authentication method and keys.
func sameAuthentication(a, b Client) bool {
	return a.AuthMethod == b.AuthMethod && same(a.encodeKeys(), b.encodeKeys()) && same(a.JWKSURI, b.JWKSURI)
}

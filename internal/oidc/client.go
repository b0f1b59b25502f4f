package oidc

import (
	"crypto/subtle"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Type says whether a client can keep a secret.
type Type string

// The types of clients. A client moves between them by an update; a secret is made or removed with it.
const (
	Confidential Type = "confidential"
	Public       Type = "public"
)

// The grants that a client may use.
const (
	AuthorizationCode = "authorization_code"
	RefreshToken      = "refresh_token"
	ClientCredentials = "client_credentials"
	DeviceCode        = "urn:ietf:params:oauth:grant-type:device_code"
)

var (
	grantTypes    = []string{AuthorizationCode, RefreshToken, ClientCredentials, DeviceCode}
	defaultGrants = []string{AuthorizationCode, RefreshToken}
	responseTypes = []string{"code"}
)

// GrantTypes returns the grant types that a client may use.
func GrantTypes() []string { return slices.Clone(grantTypes) }

// Lifetimes of tokens: what a client may ask for, and what it has when it did not.
const (
	MinTokenLife       = 60
	MaxTokenLife       = 86_400
	DefaultTokenLife   = 3_600
	MinRefreshLife     = 300
	MaxRefreshLife     = 31_536_000
	DefaultRefreshLife = 2_592_000
)

// Client is an OAuth client as create and update answer it. Its secret is not in it.
type Client struct {
	ID                     string     `json:"id"`
	Name                   string     `json:"name"`
	Description            string     `json:"description"`
	HomepageURL            string     `json:"homepage_url"`
	Icon                   *string    `json:"icon"`
	ClientType             Type       `json:"client_type" enum:"confidential,public"`
	RedirectURIs           []string   `json:"redirect_uris"`
	PostLogoutRedirectURIs []string   `json:"post_logout_redirect_uris"`
	GrantTypes             []string   `json:"grant_types"`
	ResponseTypes          []string   `json:"response_types"`
	Scopes                 []string   `json:"scopes"`
	OrgID                  string     `json:"org_id,omitempty"`
	ProjectID              *string    `json:"project_id,omitempty"`
	AccessSeconds          *int64     `json:"access_token_lifetime_seconds,omitempty"`
	RefreshSeconds         *int64     `json:"refresh_token_lifetime_seconds,omitempty"`
	IDSeconds              *int64     `json:"id_token_lifetime_seconds,omitempty"`
	AllowedUserIDs         []string   `json:"allowed_user_ids" doc:"Who may use the client; empty means everybody"`
	Internal               bool       `json:"internal"`
	IsPublic               bool       `json:"is_public" doc:"Whether users outside the organization may use the client"`
	CreatedAt              stamp.Time `json:"created_at" format:"date-time"`
	UpdatedAt              stamp.Time `json:"updated_at" format:"date-time"`

	version int64
}

// ETag is the row's version; consents and activity do not count.
func (c Client) ETag() string { return page.ETag(c.version) }

// AccessLifetime is how long the client's access tokens live.
func (c *Client) AccessLifetime() time.Duration { return seconds(c.AccessSeconds, DefaultTokenLife) }

// RefreshLifetime is how long the client's refresh tokens live.
func (c *Client) RefreshLifetime() time.Duration {
	return seconds(c.RefreshSeconds, DefaultRefreshLife)
}

// IDLifetime is how long the client's ID tokens live.
func (c *Client) IDLifetime() time.Duration { return seconds(c.IDSeconds, DefaultTokenLife) }

func seconds(set *int64, otherwise int64) time.Duration {
	if set != nil {
		otherwise = *set
	}
	return time.Duration(otherwise) * time.Second
}

// AllowedScopes returns the requested scopes that the client may use, without repetitions. It returns all scopes of the client if none is
// requested.
func (c *Client) AllowedScopes(requested string) []string {
	if strings.TrimSpace(requested) == "" {
		return slices.Clone(c.Scopes)
	}
	var allowed []string
	for _, s := range strings.Fields(requested) {
		if slices.Contains(c.Scopes, s) && !slices.Contains(allowed, s) {
			allowed = append(allowed, s)
		}
	}
	return allowed
}

// Listed is a client as list and get answer it.
type Listed struct {
	Client
	UserCount    int64       `json:"user_count" doc:"Users with a consent"`
	LastActivity *stamp.Time `json:"last_activity" format:"date-time" doc:"Last token or userinfo"`
	Link         string      `json:"link" doc:"The client's page in the console"`
}

// Created is the answer to making a client: the only time its secret is shown. A public client has none.
type Created struct {
	Client       Client `json:"client"`
	ClientSecret string `json:"client_secret"`
}

// ETag is the client's.
func (c Created) ETag() string { return c.Client.ETag() }

// Updated is the answer to an update; it has a secret when the client became confidential.
type Updated struct {
	Client       Client `json:"client"`
	ClientSecret string `json:"client_secret,omitempty"`
}

// ETag is the client's.
func (u Updated) ETag() string { return u.Client.ETag() }

// Rotated is the answer to a new secret.
type Rotated struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
}

// Settings are the fields that create and update have in common.
type Settings struct {
	Icon                   page.Opt[string]   `json:"icon,omitempty"`
	ClientType             page.Opt[Type]     `json:"client_type,omitempty" doc:"confidential (the default) or public"`
	RedirectURIs           page.Opt[[]string] `json:"redirect_uris,omitempty"`
	PostLogoutRedirectURIs page.Opt[[]string] `json:"post_logout_redirect_uris,omitempty"`
	GrantTypes             page.Opt[[]string] `json:"grant_types,omitempty"`
	ResponseTypes          page.Opt[[]string] `json:"response_types,omitempty"`
	Scopes                 page.Opt[[]string] `json:"scopes,omitempty"`
	ProjectID              page.Opt[string]   `json:"project_id,omitempty"`
	AccessSeconds          page.Opt[int64]    `json:"access_token_lifetime_seconds,omitempty"`
	RefreshSeconds         page.Opt[int64]    `json:"refresh_token_lifetime_seconds,omitempty"`
	IDSeconds              page.Opt[int64]    `json:"id_token_lifetime_seconds,omitempty"`
	AllowedUserIDs         page.Opt[[]string] `json:"allowed_user_ids,omitempty"`
	IsPublic               page.Opt[bool]     `json:"is_public,omitempty"`
}

// NewClient is what it takes to make a client. Null is as good as absent.
type NewClient struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	HomepageURL string `json:"homepage_url"`
	Settings
}

// ClientPatch changes a client; what is not sent stays. Null clears the icon, the project and the lifetimes, and nothing else.
type ClientPatch struct {
	Name        page.Opt[string] `json:"name,omitempty"`
	Description page.Opt[string] `json:"description,omitempty"`
	HomepageURL page.Opt[string] `json:"homepage_url,omitempty"`
	Settings
}

// build makes the client, or Invalid with every fault. The secret is empty for a public client.
func (n NewClient) build(now time.Time) (c Client, secret string, err error) {
	at := stamp.Of(now)
	c = Client{
		ID: id.At(id.Client, now), Name: n.Name, Description: n.Description, HomepageURL: n.HomepageURL, ClientType: Confidential,
		RedirectURIs: []string{}, PostLogoutRedirectURIs: []string{}, GrantTypes: slices.Clone(defaultGrants),
		ResponseTypes: slices.Clone(responseTypes), Scopes: defaultScopes(), AllowedUserIDs: []string{}, IsPublic: true,
		CreatedAt: at, UpdatedAt: at, version: 1,
	}
	n.Settings.set(&c)
	var faults errs.Faults
	c.check(&faults)
	if c.ClientType == Confidential {
		secret = newSecret()
	}
	return c, secret, faults.Err()
}

// apply gives the client with the patch applied, or Invalid with every fault. The secret is new when the client becomes confidential.
func (p ClientPatch) apply(before Client, now time.Time) (c Client, secret string, err error) {
	c = before
	p.Name.Set(&c.Name)
	p.Description.Set(&c.Description)
	p.HomepageURL.Set(&c.HomepageURL)
	p.Settings.set(&c)
	c.UpdatedAt, c.version = max(stamp.Of(now), before.UpdatedAt), before.version+1
	var faults errs.Faults
	p.refuseNull(&faults)
	c.check(&faults)
	if before.ClientType == Public && c.ClientType == Confidential {
		secret = newSecret()
	}
	return c, secret, faults.Err()
}

// set writes what was sent over the client. Null keeps what is there, except where null is a value.
func (s Settings) set(c *Client) {
	s.Icon.SetPtr(&c.Icon)
	s.ProjectID.SetPtr(&c.ProjectID)
	s.AccessSeconds.SetPtr(&c.AccessSeconds)
	s.RefreshSeconds.SetPtr(&c.RefreshSeconds)
	s.IDSeconds.SetPtr(&c.IDSeconds)
	if s.ClientType.Ptr() != nil {
		c.ClientType = s.ClientType.Value
	}
	if s.IsPublic.Ptr() != nil {
		c.IsPublic = s.IsPublic.Value
	}
	setList(s.RedirectURIs, &c.RedirectURIs)
	setList(s.PostLogoutRedirectURIs, &c.PostLogoutRedirectURIs)
	setList(s.GrantTypes, &c.GrantTypes)
	setList(s.ResponseTypes, &c.ResponseTypes)
	setList(s.Scopes, &c.Scopes)
	setList(s.AllowedUserIDs, &c.AllowedUserIDs)
}

// setList writes a sent list over dst, each value once: all lists of a client are sets.
func setList(sent page.Opt[[]string], dst *[]string) {
	if sent.Ptr() == nil {
		return
	}
	seen := make(map[string]bool, len(sent.Value))
	out := make([]string, 0, len(sent.Value))
	for _, v := range sent.Value {
		if !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	*dst = out
}

func (p ClientPatch) refuseNull(faults *errs.Faults) {
	for _, f := range []struct {
		name string
		null bool
	}{
		{"name", p.Name.Null},
		{"description", p.Description.Null},
		{"homepage_url", p.HomepageURL.Null},
		{"client_type", p.ClientType.Null},
		{"redirect_uris", p.RedirectURIs.Null},
		{"post_logout_redirect_uris", p.PostLogoutRedirectURIs.Null},
		{"grant_types", p.GrantTypes.Null},
		{"response_types", p.ResponseTypes.Null},
		{"scopes", p.Scopes.Null},
		{"allowed_user_ids", p.AllowedUserIDs.Null},
		{"is_public", p.IsPublic.Null},
	} {
		faults.Check(!f.null, "body."+f.name, "expected a value; leave the field out to keep what is there")
	}
}

// secretSize gives 256 bits in base62.
const secretSize = 43

func newSecret() string { return id.Secret(secretSize) }

// sameSecret compares in constant time what is stored of a secret with one that is presented. An empty hash takes the same time and is
// never right.
func sameSecret(hash []byte, presented string) bool {
	return subtle.ConstantTimeCompare(hash, seal.Hash(presented)) == 1
}

// texts is a list of strings as it stands in the database.
func texts(list []string) string {
	out, err := json.Marshal(list)
	if err != nil {
		panic(err) // strings can always be written
	}
	return string(out)
}

package oidc

import "strings"

// The grant types, as the grant_type parameter names them.
const (
	AuthorizationCode = "authorization_code"
	RefreshToken      = "refresh_token"
	ClientCredentials = "client_credentials"
	DeviceCode        = grantTypeURN + "device_code"
	TokenExchange     = grantTypeURN + "token-exchange"
)

// grantTypeURN prefixes the grant types that RFC 6749 does not define.
const grantTypeURN = "urn:ietf:params:oauth:grant-type:"

// GrantType is one way for clients to get tokens. The provider's package token serves it.
type GrantType struct {
	Name string
	// Confidential excludes public clients.
	Confidential bool
	// Default gives the grant type to clients that do not set theirs.
	Default bool
}

// grantTypes lists all grant types. It validates clients, and the discovery document shows it.
var grantTypes = []GrantType{
	{Name: AuthorizationCode, Default: true},
	{Name: RefreshToken, Default: true},
	{Name: ClientCredentials, Confidential: true},
	{Name: DeviceCode},
	{Name: TokenExchange, Confidential: true},
}

// GrantTypes returns the names of all grant types.
func GrantTypes() []string {
	return grantTypeNames(func(GrantType) bool { return true })
}

// defaultGrantTypes returns the names that apply to a client that sets none.
func defaultGrantTypes() []string {
	return grantTypeNames(func(g GrantType) bool { return g.Default })
}

func grantTypeNames(include func(GrantType) bool) (names []string) {
	for _, g := range grantTypes {
		if include(g) {
			names = append(names, g.Name)
		}
	}
	return names
}

// GrantTypeNamed returns the grant type with a name.
func GrantTypeNamed(name string) (g GrantType, ok bool) {
	for _, g := range grantTypes {
		if g.Name == name {
			return g, true
		}
	}
	return GrantType{}, false
}

// Label returns a short name for metrics.
func (g GrantType) Label() string { return strings.TrimPrefix(g.Name, grantTypeURN) }

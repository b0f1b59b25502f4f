package oidc

import "strings"

// The names of the grant types, which are the values of the parameter grant_type.
const (
	AuthorizationCode = "authorization_code"
	RefreshToken      = "refresh_token"
	ClientCredentials = "client_credentials"
	DeviceCode        = grantTypeURN + "device_code"
	TokenExchange     = grantTypeURN + "token-exchange"
)

// grantTypeURN begins the names of the grant types that RFC 6749 does not define.
const grantTypeURN = "urn:ietf:params:oauth:grant-type:"

// GrantType is a way in which clients get tokens. Package token of the provider has the function that
// serves it.
type GrantType struct {
	Name string
	// Confidential says that public clients may not use it.
	Confidential bool
	// Default says that a client has it unless its grant types are set.
	Default bool
}

// grantTypes has all grant types. Clients are validated with it, and the discovery document lists it.
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

// defaultGrantTypes returns the names of the grant types of a client whose grant types are not set.
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

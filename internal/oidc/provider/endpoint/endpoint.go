// Package endpoint names the paths of the OpenID Connect provider and of its pages.
package endpoint

// The endpoints of the protocol.
const (
	Discovery           = "/.well-known/openid-configuration"
	ServerMetadata      = "/.well-known/oauth-authorization-server"
	JWKS                = "/jwks"
	Authorize           = "/authorize"
	PushedAuthorization = "/par"
	Token               = "/oauth/token"
	Introspect          = "/introspect"
	Revoke              = "/revoke"
	UserInfo            = "/userinfo"
	DeviceAuthorization = "/device_authorization"
	EndSession          = "/end_session"
)

// The pages that users see, and the targets of their forms.
const (
	SignIn             = "/sign-in"
	Consent            = "/consent"
	AuthorizeContinue  = Authorize + "/continue"
	Device             = "/device"
	EndSessionContinue = EndSession + "/continue"
	EndSessionConfirm  = EndSession + "/confirm"
	Invitation         = "/invite/"
	Reset              = "/reset/"
	Account            = "/account"
	AccountPassword    = Account + "/password"
	AccountProfile     = Account + "/profile"
	AccountSessions    = Account + "/sessions"
	AccountSignOut     = Account + "/sign-out"
	AccountApps        = Account + "/apps"
	AccountKeys        = Account + "/keys"
	AccountKeyDelete   = AccountKeys + "/delete"
	Console            = "/console/"
)

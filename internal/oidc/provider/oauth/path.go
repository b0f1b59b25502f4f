package oauth

// The paths of the endpoints of the protocol.
const (
	PathDiscovery           = "/.well-known/openid-configuration"
	PathServerMetadata      = "/.well-known/oauth-authorization-server"
	PathJWKS                = "/jwks"
	PathAuthorize           = "/authorize"
	PathPushedAuthorization = "/par"
	PathToken               = "/oauth/token"
	PathIntrospect          = "/introspect"
	PathRevoke              = "/revoke"
	PathUserInfo            = "/userinfo"
	PathDeviceAuthorization = "/device_authorization"
	PathEndSession          = "/end_session"
)

// The paths of the pages that users see, and of the targets of their forms.
const (
	PathSignIn             = "/sign-in"
	PathConsent            = "/consent"
	PathAuthorizeContinue  = PathAuthorize + "/continue"
	PathDevice             = "/device"
	PathEndSessionContinue = PathEndSession + "/continue"
	PathEndSessionConfirm  = PathEndSession + "/confirm"
	PathInvitation         = "/invite/"
	PathReset              = "/reset/"
	PathAccount            = "/account"
	PathAccountPassword    = PathAccount + "/password"
	PathAccountProfile     = PathAccount + "/profile"
	PathAccountSessions    = PathAccount + "/sessions"
	PathAccountSignOut     = PathAccount + "/sign-out"
	PathAccountApps        = PathAccount + "/apps"
	PathAccountKeys        = PathAccount + "/keys"
	PathAccountKeyDelete   = PathAccountKeys + "/delete"
	PathAccountUpstream    = PathAccount + "/upstream"
	PathAccountUnlink      = PathAccountUpstream + "/unlink"
	PathConsole            = "/console/"
)

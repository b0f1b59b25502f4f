package chromium

import (
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/webauthn"
)

// Authenticator is a browser's virtual authenticator, which holds passkeys.
type Authenticator struct {
	b  *Browser
	id webauthn.AuthenticatorID
}

// NewAuthenticator adds an authenticator to the browser. Like a phone's, it verifies its user, and it
// does so without asking.
func (b *Browser) NewAuthenticator() *Authenticator {
	b.T.Helper()
	Call(b, webauthn.Enable, webauthn.EnableParams{})
	added := Call(b, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{
		Options: &webauthn.VirtualAuthenticatorOptions{
			Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal,
			HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
		},
	})
	return &Authenticator{b, added.AuthenticatorID}
}

// DisableAutofill stops pages that open from now on from offering passkeys in their fields, because the
// authenticator would choose one at once.
func (b *Browser) DisableAutofill() {
	b.T.Helper()
	Call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `PublicKeyCredential.isConditionalMediationAvailable = undefined`,
	})
}

// ForgetVerification makes the authenticator answer as if it had not verified its user.
func (a *Authenticator) ForgetVerification(forget bool) {
	a.b.T.Helper()
	Call(a.b, webauthn.SetResponseOverrideBits,
		webauthn.SetResponseOverrideBitsParams{AuthenticatorID: a.id, IsBadUV: &forget})
}

// Passkeys returns the passkeys that the authenticator holds.
func (a *Authenticator) Passkeys() []*webauthn.Credential {
	a.b.T.Helper()
	return Call(a.b, webauthn.GetCredentials, webauthn.GetCredentialsParams{AuthenticatorID: a.id}).Credentials
}

// addCredential is webauthn.AddCredential without the fields that this Chromium refuses.
var addCredential = cdp.Command[map[string]any, cdp.Empty]{Method: webauthn.CommandAddCredential}

// Restore replaces all passkeys by an earlier copy of one.
func (a *Authenticator) Restore(earlier *webauthn.Credential) {
	a.b.T.Helper()
	Call(a.b, webauthn.ClearCredentials, webauthn.ClearCredentialsParams{AuthenticatorID: a.id})
	Call(a.b, addCredential, map[string]any{"authenticatorId": a.id, "credential": map[string]any{
		"credentialId": earlier.CredentialID, "isResidentCredential": true, "rpId": earlier.RpID,
		"privateKey": earlier.PrivateKey, "userHandle": earlier.UserHandle, "signCount": earlier.SignCount,
	}})
}

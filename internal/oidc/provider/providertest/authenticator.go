package providertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncbor"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"
	"github.com/pquerna/otp/totp"
)

// Authenticator holds one passkey, and answers as a test wants it to.
type Authenticator struct {
	T testing.TB
	// Origin and RPID belong to the site that the browser shows.
	Origin, RPID string
	// Unverified reports whether to leave the user unverified.
	Unverified bool
	// Count is the authenticator's signature counter. If it starts at 0, it stays 0.
	Count uint32
	// Handle is the passkey's handle for its user.
	Handle []byte

	id  []byte
	key *ecdsa.PrivateKey
}

// NewAuthenticator returns an authenticator without a passkey, in a browser that shows the provider.
func (f *Fixture) NewAuthenticator() *Authenticator {
	return &Authenticator{T: f.T, Origin: f.URL, RPID: "localhost"}
}

// options has the options that the pages give to browsers.
type options struct {
	Challenge string
	User      struct{ ID string }
}

func (a *Authenticator) parse(text string) (o options) {
	a.T.Helper()
	Must(a.T, json.Unmarshal([]byte(text), &o))
	return o
}

// Create creates a passkey, and returns the credential for a page to send.
func (a *Authenticator) Create(text string) (credential string) {
	a.T.Helper()
	o := a.parse(text)
	var err error
	a.Handle, err = base64.RawURLEncoding.DecodeString(o.User.ID)
	Must(a.T, err)
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Must(a.T, err)
	a.id = make([]byte, 16)
	rand.Read(a.id)
	data := append(a.data(protocol.FlagAttestedCredentialData), a.attested()...)
	object, err := webauthncbor.Marshal(map[string]any{"fmt": "none", "attStmt": map[string]any{}, "authData": data})
	Must(a.T, err)
	return a.encode(map[string][]byte{
		"clientDataJSON": a.clientData("webauthn.create", o.Challenge), "attestationObject": object,
	})
}

// Get uses the passkey, and returns the credential for a page to send.
func (a *Authenticator) Get(text string) (credential string) {
	a.T.Helper()
	if a.Count > 0 {
		a.Count++
	}
	client := a.clientData("webauthn.get", a.parse(text).Challenge)
	data := a.data(0)
	clientSum := sha256.Sum256(client)
	sum := sha256.Sum256(append(data, clientSum[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, a.key, sum[:])
	Must(a.T, err)
	return a.encode(map[string][]byte{
		"clientDataJSON": client, "authenticatorData": data, "signature": signature, "userHandle": a.Handle,
	})
}

func (a *Authenticator) clientData(kind, challenge string) []byte {
	a.T.Helper()
	text, err := json.Marshal(map[string]any{"type": kind, "challenge": challenge, "origin": a.Origin, "crossOrigin": false})
	Must(a.T, err)
	return text
}

// data returns authenticator data with additional flags.
func (a *Authenticator) data(flags protocol.AuthenticatorFlags) []byte {
	flags |= protocol.FlagUserPresent
	if !a.Unverified {
		flags |= protocol.FlagUserVerified
	}
	site := sha256.Sum256([]byte(a.RPID))
	return binary.BigEndian.AppendUint32(append(site[:], byte(flags)), a.Count)
}

// attested returns the passkey's id and public key.
func (a *Authenticator) attested() []byte {
	a.T.Helper()
	point, err := a.key.PublicKey.Bytes()
	Must(a.T, err)
	key, err := webauthncbor.Marshal(webauthncose.EC2PublicKeyData{
		PublicKeyData: webauthncose.PublicKeyData{
			KeyType: int64(webauthncose.EllipticKey), Algorithm: int64(webauthncose.AlgES256),
		},
		Curve: int64(webauthncose.P256), XCoord: point[1:33], YCoord: point[33:],
	})
	Must(a.T, err)
	model := make([]byte, 16)
	return append(append(binary.BigEndian.AppendUint16(model, uint16(len(a.id))), a.id...), key...)
}

func (a *Authenticator) encode(response map[string][]byte) string {
	a.T.Helper()
	parts := map[string]string{}
	for name, value := range response {
		parts[name] = base64.RawURLEncoding.EncodeToString(value)
	}
	id := base64.RawURLEncoding.EncodeToString(a.id)
	text, err := json.Marshal(map[string]any{"id": id, "rawId": id, "type": "public-key", "response": parts})
	Must(a.T, err)
	return string(text)
}

// AuthenticatorApp is a user's authenticator app, with the recovery codes that the user has kept.
type AuthenticatorApp struct {
	fixture  *Fixture
	Secret   string
	Recovery []string
}

var (
	shownSecret   = regexp.MustCompile(`aria-labelledby="key">([A-Z2-7]{32})<`)
	shownRecovery = regexp.MustCompile(`<li>([a-z2-7-]{19})</li>`)
)

// Code returns the next period's code, because each one is accepted once.
func (a *AuthenticatorApp) Code() string {
	a.fixture.T.Helper()
	a.fixture.Clock.Add(30 * time.Second)
	code, err := totp.GenerateCode(a.Secret, a.fixture.Clock.Now())
	Must(a.fixture.T, err)
	return code
}

// Wrong returns a code that the app shows neither now nor soon.
func (a *AuthenticatorApp) Wrong() string {
	a.fixture.T.Helper()
	var codes []string
	for period := -2; period <= 2; period++ {
		at := a.fixture.Clock.Now().Add(time.Duration(period) * 30 * time.Second)
		code, err := totp.GenerateCode(a.Secret, at)
		Must(a.fixture.T, err)
		codes = append(codes, code)
	}
	for i := 0; ; i++ {
		if code := fmt.Sprintf("%06d", i); !slices.Contains(codes, code) {
			return code
		}
	}
}

// ScanApp returns an app that has scanned a page's code.
func (f *Fixture) ScanApp(setup *Response) *AuthenticatorApp {
	f.T.Helper()
	found := shownSecret.FindStringSubmatch(setup.Want(http.StatusOK).Body)
	if found == nil {
		f.T.Fatalf("the page shows no secret: %s", setup.Body)
	}
	return &AuthenticatorApp{fixture: f, Secret: found[1]}
}

// Keep keeps the recovery codes on a page.
func (a *AuthenticatorApp) Keep(shown *Response) {
	a.fixture.T.Helper()
	a.Recovery = nil
	for _, found := range shownRecovery.FindAllStringSubmatch(shown.Want(http.StatusOK).Body, -1) {
		a.Recovery = append(a.Recovery, found[1])
	}
	if len(a.Recovery) != 10 {
		a.fixture.T.Fatalf("%d recovery codes are shown: %s", len(a.Recovery), shown.Body)
	}
}

// AddApp adds an authenticator app on a browser's account page.
func (b *Browser) AddApp() *AuthenticatorApp {
	b.Fixture.T.Helper()
	setup := b.Get(b.Fixture.URL + "/account/authenticator")
	a := b.Fixture.ScanApp(setup)
	a.Keep(b.Submit(setup, "code", a.Code()))
	return a
}

// OwnersApp adds an authenticator app for the owner.
func (f *Fixture) OwnersApp() *AuthenticatorApp {
	f.T.Helper()
	b := f.Browser()
	b.SignIn(b.Get(f.URL + "/account"))
	return b.AddApp()
}

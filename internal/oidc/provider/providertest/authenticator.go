package providertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"testing"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncbor"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"
)

// Authenticator holds one passkey. Tests choose how it answers.
type Authenticator struct {
	T testing.TB
	// Origin and RPID describe the site that the browser shows.
	Origin, RPID string
	// Unverified leaves the user unverified.
	Unverified bool
	// Count is the number of signatures that it claims. If it starts at 0, it stays there.
	Count uint32
	// Handle is the passkey's name for its user.
	Handle []byte

	id  []byte
	key *ecdsa.PrivateKey
}

// NewAuthenticator returns an authenticator without a passkey, in a browser that shows the provider.
func (f *Fixture) NewAuthenticator() *Authenticator {
	return &Authenticator{T: f.T, Origin: f.URL, RPID: "localhost"}
}

// options are the ones that the pages give to browsers.
type options struct {
	Challenge string
	User      struct{ ID string }
}

func (a *Authenticator) parse(text string) (o options) {
	a.T.Helper()
	Must(a.T, json.Unmarshal([]byte(text), &o))
	return o
}

// Create creates a passkey, and returns the credential for the page to send.
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

// Get uses the passkey, and returns the credential for the page to send.
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

package passkey

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/name"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/stamp"
)

const (
	// challengeLifetime is the time that a user has to answer a challenge.
	challengeLifetime = 10 * time.Minute
	handleSize        = 32

	// The purposes bind a sealed challenge to its ceremony.
	purposeCreate = "oidc.passkey.create"
	purposeUse    = "oidc.passkey.use"
)

// challenge is sealed between a ceremony's two requests.
type challenge struct {
	Session webauthn.SessionData `json:"session"`
	// Owner is the person who creates a passkey; empty if one is used.
	Owner     string     `json:"owner,omitempty"`
	ExpiresAt stamp.Time `json:"expires_at"`
}

// Owner is a person who creates a passkey.
type Owner struct {
	// ID is the user's id, or text from the page that stands for a person who is not a user yet.
	ID    string
	Email string
	// Authenticators show Name, or the address if it is empty.
	Name string
	// Passkeys has the person's existing passkeys.
	Passkeys []Passkey
}

// person is a user as the library sees them.
type person struct {
	handle      []byte
	email, name string
	credentials []webauthn.Credential
}

func (p *person) WebAuthnID() []byte                         { return p.handle }
func (p *person) WebAuthnName() string                       { return p.email }
func (p *person) WebAuthnDisplayName() string                { return p.name }
func (p *person) WebAuthnCredentials() []webauthn.Credential { return p.credentials }

func (o Owner) person() *person {
	p := &person{email: o.Email, name: o.Name}
	if p.name == "" {
		p.name = o.Email
	}
	for _, key := range o.Passkeys {
		p.handle = key.handle
		p.credentials = append(p.credentials, key.credential())
	}
	if p.handle == nil {
		p.handle = make([]byte, handleSize)
		rand.Read(p.handle)
	}
	return p
}

func (p Passkey) credential() webauthn.Credential {
	return webauthn.Credential{
		ID: p.credentialID, PublicKey: p.publicKey,
		Flags:         webauthn.CredentialFlags{BackupEligible: p.backupEligible},
		Authenticator: webauthn.Authenticator{SignCount: uint32(p.signCount)},
	}
}

// Create returns the data that a page needs to create a passkey for a person. Do not call it where
// passkeys are unavailable.
func (m *Manager) Create(o Owner) (*pages.Ceremony, error) {
	p := o.person()
	known := webauthn.Credentials(p.credentials).CredentialDescriptors()
	creation, session, err := m.party.BeginRegistration(p, webauthn.WithExclusions(known))
	if err != nil {
		return nil, fmt.Errorf("begin to create a passkey: %w", err)
	}
	return m.ceremony(purposeCreate, creation.Response, challenge{Session: *session, Owner: o.ID})
}

// SignIn returns the data that a page needs to use any user's passkey. It returns nil if passkeys
// cannot be used here.
func (m *Manager) SignIn() (*pages.Ceremony, error) {
	if m.party == nil {
		return nil, nil
	}
	assertion, session, err := m.party.BeginDiscoverableLogin()
	if err != nil {
		return nil, fmt.Errorf("begin to use a passkey: %w", err)
	}
	return m.ceremony(purposeUse, assertion.Response, challenge{Session: *session})
}

func (m *Manager) ceremony(purpose string, options any, c challenge) (*pages.Ceremony, error) {
	text, err := json.Marshal(options)
	if err != nil {
		return nil, fmt.Errorf("encode options of a passkey: %w", err)
	}
	c.ExpiresAt = stamp.Of(m.Now()).Add(challengeLifetime)
	plain, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode challenge of a passkey: %w", err)
	}
	sealed := base64.RawURLEncoding.EncodeToString(m.Ring.Seal(purpose, plain))
	return &pages.Ceremony{Options: string(text), Challenge: sealed, Origin: m.origin}, nil
}

// open returns a challenge that ceremony has sealed. It returns ErrRefused if there is none, and
// ErrExpired if it is too old.
func (m *Manager) open(purpose, text string) (c challenge, err error) {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || m.party == nil {
		return c, ErrRefused
	}
	plain, err := m.Ring.Open(purpose, sealed)
	if err != nil {
		return c, ErrRefused
	}
	if err := json.Unmarshal(plain, &c); err != nil {
		return c, ErrRefused
	}
	if c.ExpiresAt < stamp.Of(m.Now()) {
		return c, ErrExpired
	}
	return c, nil
}

// Created verifies the form in which a person has created a passkey, and returns it for Add to store.
// It returns a Problem if the answer is invalid or another person's, or if the name cannot be stored.
func (m *Manager) Created(r *http.Request, ownerID string) (*New, error) {
	name, err := NameOf(r)
	if err != nil {
		return nil, err
	}
	a := answerOf(r)
	c, err := m.open(purposeCreate, a.challenge)
	if err != nil {
		return nil, err
	}
	if c.Owner != ownerID {
		return nil, ErrRefused
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes([]byte(a.credential))
	if err != nil {
		return nil, ErrRefused
	}
	found, err := m.party.CreateCredential(&person{handle: c.Session.UserID}, c.Session, parsed)
	if err != nil {
		return nil, ErrRefused
	}
	return &New{
		challenge: c.Session.Challenge,
		key: Passkey{
			Name: name, credentialID: found.ID, handle: c.Session.UserID, publicKey: found.PublicKey,
			backupEligible: found.Flags.BackupEligible, signCount: int64(found.Authenticator.SignCount),
		},
	}, nil
}

// Assertion is a passkey's verified answer.
type Assertion struct {
	UserID    string
	challenge string
	key       Passkey
	count     int64 // the authenticator's
}

// Asserted verifies a passkey's answer in a form, and returns it for Use to store. It returns a Problem
// if the answer is invalid.
func (m *Manager) Asserted(r *http.Request) (*Assertion, error) {
	a := answerOf(r)
	c, err := m.open(purposeUse, a.challenge)
	if err != nil {
		return nil, err
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes([]byte(a.credential))
	if err != nil {
		return nil, ErrRefused
	}
	key, err := m.byCredential(m.DB.Read(r.Context()), parsed.RawID)
	if errors.Is(err, db.ErrNoRows) {
		return nil, ErrRefused
	}
	if err != nil {
		return nil, err
	}
	owner := func(_, _ []byte) (webauthn.User, error) { return Owner{Passkeys: []Passkey{key}}.person(), nil }
	if _, _, err := m.party.ValidatePasskeyLogin(owner, c.Session, parsed); err != nil {
		return nil, ErrRefused
	}
	return &Assertion{
		UserID: key.UserID, challenge: c.Session.Challenge, key: key,
		count: int64(parsed.Response.AuthenticatorData.Counter),
	}, nil
}

// maxName caps a passkey's name, in characters.
const maxName = 64

// answer is sent by a page after a ceremony: the sealed challenge, and the credential that the
// authenticator has signed, as JSON.
type answer struct{ challenge, credential string }

func answerOf(r *http.Request) answer {
	return answer{challenge: r.PostForm.Get("challenge"), credential: r.PostForm.Get("credential")}
}

// NameOf returns the name that a form gives to a passkey, or else one after the browser. It returns
// ErrName if the name cannot be stored.
func NameOf(r *http.Request) (string, error) {
	chosen := strings.TrimSpace(r.PostForm.Get("name"))
	if chosen == "" {
		return defaultName(r.UserAgent()), nil
	}
	if !name.Valid(chosen) || utf8.RuneCountInString(chosen) > maxName {
		return "", ErrName
	}
	return chosen, nil
}

// defaultName names a passkey after the browser that created it.
func defaultName(userAgent string) string {
	if found := pages.BrowserName(userAgent); found != "" {
		return "Passkey of " + found
	}
	return "Passkey"
}

// Methods returns the methods that a passkey stands for: a key that the user has, and that the
// authenticator lets only the user use.
func Methods() oauth.Methods {
	return oauth.Methods{oauth.MethodPossession, oauth.MethodUserVerified, oauth.MethodSeveral}
}

// OwnerOf returns a user as the owner for a new passkey, with the passkeys the user already has.
func OwnerOf(user account.User, list []Passkey) Owner {
	return Owner{
		ID: user.ID, Email: user.Email, Passkeys: list, Name: strings.TrimSpace(user.FirstName + " " + user.LastName),
	}
}

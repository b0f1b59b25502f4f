package passkey

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"steward/internal/db"
	"steward/internal/oidc/provider/pages"
	"steward/internal/stamp"
)

const (
	// challengeLifetime bounds how long a user may take to answer a challenge.
	challengeLifetime = 10 * time.Minute
	handleSize        = 32

	// The purposes bind a sealed challenge to its ceremony.
	purposeCreate = "oidc.passkey.create"
	purposeUse    = "oidc.passkey.use"
)

// challenge holds the state between a ceremony's two requests. The browser carries it, sealed.
type challenge struct {
	Session webauthn.SessionData `json:"session"`
	// Owner is the person who creates the passkey; empty if someone uses one.
	Owner     string     `json:"owner,omitempty"`
	ExpiresAt stamp.Time `json:"expires_at"`
}

// Owner is a person who creates a passkey.
type Owner struct {
	// ID is the user's id, or stands for a person who is not a user yet.
	ID    string
	Email string
	// Authenticators show Name, or the address if it is empty.
	Name string
	// Passkeys are the ones that the person already has.
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

// credential returns the passkey as the library sees it.
func (p Passkey) credential() webauthn.Credential {
	return webauthn.Credential{
		ID: p.credentialID, PublicKey: p.publicKey,
		Flags:         webauthn.CredentialFlags{BackupEligible: p.backupEligible},
		Authenticator: webauthn.Authenticator{SignCount: uint32(p.signCount)},
	}
}

// Create starts the ceremony in which a person creates a passkey. Do not call it where passkeys are
// unavailable.
func (m *Manager) Create(o Owner) (*pages.Ceremony, error) {
	p := o.person()
	known := webauthn.Credentials(p.credentials).CredentialDescriptors()
	creation, session, err := m.party.BeginRegistration(p, webauthn.WithExclusions(known))
	if err != nil {
		return nil, fmt.Errorf("begin to create a passkey: %w", err)
	}
	return m.ceremony(purposeCreate, creation.Response, challenge{Session: *session, Owner: o.ID})
}

// SignIn starts the ceremony in which any user signs in with a passkey. It returns nil if passkeys do not
// work here.
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

// open returns a challenge that ceremony sealed. It returns ErrRefused if it cannot open the text, and
// ErrExpired if the user took too long.
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

// Created verifies the form of a person who has created a passkey, and returns the passkey for Add to
// store. It returns a Problem if the answer is invalid or belongs to another person, or if we cannot
// store the name.
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
	count     int64 // the authenticator's counter
}

// Asserted verifies the form with a passkey's answer, and returns the Assertion for Use to store. It
// returns a Problem if the answer is invalid.
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

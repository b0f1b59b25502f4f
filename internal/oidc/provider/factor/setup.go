package factor

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	"steward/internal/stamp"
)

// Setup is an authenticator app that the user is adding.
type Setup struct {
	// Secret is in base32, as users type it.
	Secret string
	// URI is the QR code's content.
	URI string
	// Sealed carries the setup through a form.
	Sealed string
}

// sealedSetup is the plain text of Setup.Sealed.
type sealedSetup struct {
	UserID    string     `json:"user_id"`
	Secret    string     `json:"secret"`
	ExpiresAt stamp.Time `json:"expires_at"`
}

const (
	// setupLifetime bounds how long a user may take to enter the first code.
	setupLifetime = 20 * time.Minute
	setupPurpose  = "oidc.factor.setup"
)

// ErrExpired is the error for a setup that has expired, belongs to another user or was not made here.
var ErrExpired = errors.New("the setup of the authenticator app has expired")

// NewSetup starts setting up an app for a user.
func (s *Store) NewSetup(userID, email string) (Setup, error) {
	key, err := newKey(s.Installation, email, nil)
	if err != nil {
		return Setup{}, err
	}
	plain, err := json.Marshal(sealedSetup{
		UserID: userID, Secret: key.Secret(), ExpiresAt: stamp.Of(s.Now()).Add(setupLifetime),
	})
	if err != nil {
		return Setup{}, err
	}
	sealed := base64.RawURLEncoding.EncodeToString(s.Ring.Seal(setupPurpose, plain))
	return Setup{Secret: key.Secret(), URI: key.URL(), Sealed: sealed}, nil
}

// OpenSetup returns the user's setup from a form, or ErrExpired.
func (s *Store) OpenSetup(text, userID, email string) (Setup, error) {
	opened, err := s.openSetup(text)
	if err != nil || opened.UserID != userID || opened.ExpiresAt < stamp.Of(s.Now()) {
		return Setup{}, ErrExpired
	}
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(opened.Secret)
	if err != nil {
		return Setup{}, ErrExpired
	}
	key, err := newKey(s.Installation, email, secret)
	if err != nil {
		return Setup{}, err
	}
	return Setup{Secret: opened.Secret, URI: key.URL(), Sealed: text}, nil
}

func (s *Store) openSetup(text string) (opened sealedSetup, err error) {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return opened, err
	}
	plain, err := s.Ring.Open(setupPurpose, sealed)
	if err != nil {
		return opened, err
	}
	err = json.Unmarshal(plain, &opened)
	return opened, err
}

// ContinueSetup is OpenSetup, but if the setup has expired it returns a new one, and true.
func (s *Store) ContinueSetup(text, userID, email string) (setup Setup, expired bool, err error) {
	setup, err = s.OpenSetup(text, userID, email)
	if !errors.Is(err, ErrExpired) {
		return setup, false, err
	}
	setup, err = s.NewSetup(userID, email)
	return setup, true, err
}

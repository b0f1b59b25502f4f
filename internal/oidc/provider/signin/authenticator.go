package signin

import (
	"cmp"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"

	"steward/internal/stamp"
)

const (
	// An app shows each code for codePeriod seconds.
	codePeriod = 30
	// codeSkew is the number of periods that the app's clock may be off.
	codeSkew = 1

	// RecoveryCodes is the number of recovery codes that a user gets.
	RecoveryCodes = 10
	// recoverySize is a recovery code's length in characters, with 5 bits each. Users see them in
	// groups of recoveryGroup.
	recoverySize  = 16
	recoveryGroup = 4

	// freeFailures is the number of wrong codes without consequence. Each further one doubles the
	// pause, from firstPause up to maxPause.
	freeFailures = 4
	firstPause   = time.Minute
	maxPause     = time.Hour
)

// newAuthenticatorKey returns a key for an installation's user, who may have no address. If secret is empty, it
// makes a new one.
func newAuthenticatorKey(installation, email string, secret []byte) (*otp.Key, error) {
	key, err := totp.Generate(totp.GenerateOpts{
		Issuer: strings.ReplaceAll(installation, ":", " "), AccountName: cmp.Or(email, "account"), Secret: secret, Period: codePeriod,
	})
	if err != nil {
		return nil, fmt.Errorf("make the key of an authenticator app: %w", err)
	}
	return key, nil
}

// stepOf returns the number of a time's period.
func stepOf(t time.Time) int64 { return t.Unix() / codePeriod }

// matchingStep returns the step that has this code, near the time and after last, or 0 if there is
// none.
func matchingStep(secret, code string, now time.Time, last int64) (int64, error) {
	matching := int64(0)
	for step := stepOf(now) - codeSkew; step <= stepOf(now)+codeSkew; step++ {
		want, err := hotp.GenerateCode(secret, uint64(step))
		if err != nil {
			return 0, fmt.Errorf("compute the code of an authenticator app: %w", err)
		}
		if subtle.ConstantTimeCompare([]byte(code), []byte(want)) == 1 && step > last {
			matching = step
		}
	}
	return matching, nil
}

// codePause returns the pause before the next code after a number of wrong ones.
func codePause(failures int64) time.Duration {
	if failures <= freeFailures {
		return 0
	}
	doublings := min(failures-freeFailures-1, 10)
	return min(firstPause<<doublings, maxPause)
}

// normalizeCode returns a code in the form that we store or compute: without spaces and hyphens, in lower
// case.
func normalizeCode(code string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '-' {
			return -1
		}
		return r
	}, strings.ToLower(code))
}

// IsAppCode reports whether a user's input looks like a code from an app.
func IsAppCode(text string) bool {
	code := normalizeCode(text)
	return len(code) == otp.DigitsSix.Length() && strings.Trim(code, "0123456789") == ""
}

// AuthenticatorSetup is an authenticator app that is being added.
type AuthenticatorSetup struct {
	// Secret is in base32, as users type it.
	Secret string
	// URI is the QR code's content.
	URI string
	// Sealed carries the setup through a form.
	Sealed string
}

// sealedSetup is a setup on its way through a form.
type sealedSetup struct {
	UserID    string     `json:"user_id"`
	Secret    string     `json:"secret"`
	ExpiresAt stamp.Time `json:"expires_at"`
}

const (
	// setupLifetime is the time that a user has to enter the first code.
	setupLifetime = 20 * time.Minute
	setupPurpose  = "oidc.factor.setup"
)

// ErrSetupExpired means that a setup has expired, belongs to another user or was not made here.
var ErrSetupExpired = errors.New("the setup of the authenticator app has expired")

// NewSetup returns a new app for a user.
func (s *Factors) NewSetup(userID, email string) (AuthenticatorSetup, error) {
	key, err := newAuthenticatorKey(s.Installation, email, nil)
	if err != nil {
		return AuthenticatorSetup{}, err
	}
	plain, err := json.Marshal(sealedSetup{
		UserID: userID, Secret: key.Secret(), ExpiresAt: stamp.Of(s.Now()).Add(setupLifetime),
	})
	if err != nil {
		return AuthenticatorSetup{}, err
	}
	sealed := base64.RawURLEncoding.EncodeToString(s.Ring.Seal(setupPurpose, plain))
	return AuthenticatorSetup{Secret: key.Secret(), URI: key.URL(), Sealed: sealed}, nil
}

// OpenSetup returns the user's setup in a form, or ErrSetupExpired.
func (s *Factors) OpenSetup(text, userID, email string) (AuthenticatorSetup, error) {
	opened, err := s.openSetup(text)
	if err != nil || opened.UserID != userID || opened.ExpiresAt < stamp.Of(s.Now()) {
		return AuthenticatorSetup{}, ErrSetupExpired
	}
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(opened.Secret)
	if err != nil {
		return AuthenticatorSetup{}, ErrSetupExpired
	}
	key, err := newAuthenticatorKey(s.Installation, email, secret)
	if err != nil {
		return AuthenticatorSetup{}, err
	}
	return AuthenticatorSetup{Secret: opened.Secret, URI: key.URL(), Sealed: text}, nil
}

func (s *Factors) openSetup(text string) (opened sealedSetup, err error) {
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
func (s *Factors) ContinueSetup(text, userID, email string) (setup AuthenticatorSetup, expired bool, err error) {
	setup, err = s.OpenSetup(text, userID, email)
	if !errors.Is(err, ErrSetupExpired) {
		return setup, false, err
	}
	setup, err = s.NewSetup(userID, email)
	return setup, true, err
}

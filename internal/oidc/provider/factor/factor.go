// Package factor owns users' second factors: authenticator apps (RFC 6238) and recovery codes.
//
// Setting an app up takes two steps. NewSetup makes a secret, which travels sealed in the form of the
// page that shows it. We store nothing until the user has entered a code from the app (Add). We make
// recovery codes together with the app and show them once.
//
// We accept a code from the app once, and wrong ones delay the next one, for all replicas together.
// Recovery codes are too long to guess, so that guesses at the app's codes do not lock the user out.
package factor

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
	// An app shows each code for period seconds.
	period = 30
	// skew is the number of periods that the app's clock may be off.
	skew = 1

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

// newKey returns a key for an installation's user, who may have no address. If secret is empty, it
// makes a new one.
func newKey(installation, email string, secret []byte) (*otp.Key, error) {
	key, err := totp.Generate(totp.GenerateOpts{
		Issuer: strings.ReplaceAll(installation, ":", " "), AccountName: cmp.Or(email, "account"), Secret: secret, Period: period,
	})
	if err != nil {
		return nil, fmt.Errorf("make the key of an authenticator app: %w", err)
	}
	return key, nil
}

// stepOf returns the number of a time's period.
func stepOf(t time.Time) int64 { return t.Unix() / period }

// matchingStep returns the step that has this code, near the time and after last, or 0 if there is
// none.
func matchingStep(secret, code string, now time.Time, last int64) (int64, error) {
	matching := int64(0)
	for step := stepOf(now) - skew; step <= stepOf(now)+skew; step++ {
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

// pause returns the pause before the next code after a number of wrong ones.
func pause(failures int64) time.Duration {
	if failures <= freeFailures {
		return 0
	}
	doublings := min(failures-freeFailures-1, 10)
	return min(firstPause<<doublings, maxPause)
}

// normalize returns a code in the form that we store or compute: without spaces and hyphens, in lower
// case.
func normalize(code string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '-' {
			return -1
		}
		return r
	}, strings.ToLower(code))
}

// IsAppCode reports whether a user's input looks like a code from an app.
func IsAppCode(text string) bool {
	code := normalize(text)
	return len(code) == otp.DigitsSix.Length() && strings.Trim(code, "0123456789") == ""
}

// Setup is an authenticator app that is being added.
type Setup struct {
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

// ErrExpired means that a setup has expired, belongs to another user or was not made here.
var ErrExpired = errors.New("the setup of the authenticator app has expired")

// NewSetup returns a new app for a user.
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

// OpenSetup returns the user's setup in a form, or ErrExpired.
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

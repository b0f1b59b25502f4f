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
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"
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

// newRecoveryCodes returns new recovery codes in the form that users see.
func newRecoveryCodes() []string {
	codes := make([]string, RecoveryCodes)
	for i := range codes {
		codes[i] = newRecoveryCode()
	}
	return codes
}

func newRecoveryCode() string {
	text := strings.ToLower(rand.Text()[:recoverySize])
	var groups []string
	for i := 0; i < recoverySize; i += recoveryGroup {
		groups = append(groups, text[i:i+recoveryGroup])
	}
	return strings.Join(groups, "-")
}

// Package factor owns the second factors of users: authenticator apps (RFC 6238) and recovery codes.
//
// An app is set up in two steps. NewSetup makes a secret, which travels sealed in the form of the page
// that shows it; nothing is stored until the user has entered a code of the app (Add). Recovery codes
// are made with the app and shown once.
//
// A code of the app is accepted once, and wrong ones make the next one wait, for all replicas together.
// Recovery codes are too long to be guessed, so that whoever guesses codes of the app does not lock its
// user out.
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
	// period is how long a code of an app is shown, in seconds.
	period = 30
	// skew is by how many periods the clock of the app may differ.
	skew = 1

	// RecoveryCodes is how many recovery codes a user gets.
	RecoveryCodes = 10
	// recoverySize is the number of characters of a recovery code, with 5 bits each. Users see them in
	// groups of recoveryGroup.
	recoverySize  = 16
	recoveryGroup = 4

	// freeFailures is how many wrong codes have no consequence. Each one after doubles the pause, from
	// firstPause up to maxPause.
	freeFailures = 4
	firstPause   = time.Minute
	maxPause     = time.Hour
)

// newKey returns a key for the user of an installation, who may have no address. An empty secret is replaced by a new
// one.
func newKey(installation, email string, secret []byte) (*otp.Key, error) {
	key, err := totp.Generate(totp.GenerateOpts{
		Issuer: strings.ReplaceAll(installation, ":", " "), AccountName: cmp.Or(email, "account"), Secret: secret, Period: period,
	})
	if err != nil {
		return nil, fmt.Errorf("make the key of an authenticator app: %w", err)
	}
	return key, nil
}

// stepOf returns the number of the period that a time is in.
func stepOf(t time.Time) int64 { return t.Unix() / period }

// matchingStep returns the step after last, near the time, of which code is the code. It returns 0 if
// there is none.
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

// pause returns how long the next code has to wait after a number of wrong ones.
func pause(failures int64) time.Duration {
	if failures <= freeFailures {
		return 0
	}
	doublings := min(failures-freeFailures-1, 10)
	return min(firstPause<<doublings, maxPause)
}

// normalize returns a code as it is stored or computed: without spaces and hyphens, in lower case.
func normalize(code string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '-' {
			return -1
		}
		return r
	}, strings.ToLower(code))
}

// IsAppCode reports whether a text that a user has typed has the form of a code of an app.
func IsAppCode(text string) bool {
	code := normalize(text)
	return len(code) == otp.DigitsSix.Length() && strings.Trim(code, "0123456789") == ""
}

// newRecoveryCodes returns new recovery codes as users see them.
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

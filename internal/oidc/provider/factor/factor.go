// Package factor owns the second factors of users: authenticator apps (RFC 6238) and recovery codes.
//
// A user sets up an app in two steps. NewSetup makes a secret, which travels sealed in the form on the
// page that shows it. We store nothing until the user has entered one of the app's codes (Add). Add also
// makes the recovery codes, which the user sees once.
//
// We accept each app code once, and wrong ones delay the next try, on all replicas together. Recovery
// codes are too long to guess and have no such delay, so somebody who guesses app codes cannot lock the
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
	// period is how long an app shows a code, in seconds.
	period = 30
	// skew bounds how many periods the app's clock may be off.
	skew = 1

	// RecoveryCodes is how many recovery codes a user gets.
	RecoveryCodes = 10
	// recoverySize is a recovery code's length in characters, with 5 bits each. Users see them in groups
	// of recoveryGroup.
	recoverySize  = 16
	recoveryGroup = 4

	// freeFailures is how many wrong codes have no consequence. Each further one doubles the pause, from
	// firstPause up to maxPause.
	freeFailures = 4
	firstPause   = time.Minute
	maxPause     = time.Hour
)

// newKey returns a key for an installation's user, who may have no address. If secret is empty, it makes
// a new one.
func newKey(installation, email string, secret []byte) (*otp.Key, error) {
	key, err := totp.Generate(totp.GenerateOpts{
		Issuer: strings.ReplaceAll(installation, ":", " "), AccountName: cmp.Or(email, "account"), Secret: secret, Period: period,
	})
	if err != nil {
		return nil, fmt.Errorf("make the key of an authenticator app: %w", err)
	}
	return key, nil
}

// stepOf returns the number of the period that contains t.
func stepOf(t time.Time) int64 { return t.Unix() / period }

// matchingStep returns the step after last, near now, that code belongs to. It returns 0 if there is
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

// pause returns how long the next try must wait after a number of wrong codes.
func pause(failures int64) time.Duration {
	if failures <= freeFailures {
		return 0
	}
	doublings := min(failures-freeFailures-1, 10)
	return min(firstPause<<doublings, maxPause)
}

// normalize returns a code in the form that we store or compute: lower case, without spaces and hyphens.
func normalize(code string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '-' {
			return -1
		}
		return r
	}, strings.ToLower(code))
}

// IsAppCode reports whether the user's input looks like an app's code.
func IsAppCode(text string) bool {
	code := normalize(text)
	return len(code) == otp.DigitsSix.Length() && strings.Trim(code, "0123456789") == ""
}

// newRecoveryCodes returns new recovery codes, formatted for users.
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

package signin_test

import (
	"fmt"
	"testing"
	"time"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/signin"
)

func same(text string) func(int) string { return func(int) string { return text } }

func eachIPv4(i int) string { return fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255) }

func eachIPv6(i int) string { return fmt.Sprintf("2001:db8::%x", i+1) }

func eachEmail(i int) string { return fmt.Sprintf("u%d@example.com", i) }

// guess tries n passwords and returns how many tries were allowed.
func guess(l *oauth.Throttle, now time.Time, n int, email, address func(i int) string) (allowed int) {
	for i := range n {
		if l.Take(now, signin.PasswordLimits(email(i), oauth.Network(address(i)))...) == 0 {
			allowed++
		}
	}
	return allowed
}

func TestPasswordLimitsPerAccountAndAddress(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		email, address func(int) string
		want           int
	}{
		"one account, one address":    {same("a@example.com"), same("10.0.0.1"), 10},
		"one account, many addresses": {same("a@example.com"), eachIPv4, 100},
		"many accounts, one address":  {eachEmail, same("10.0.0.1"), 300},
		"many accounts, one IPv6 net": {eachEmail, eachIPv6, 300},
		"many accounts and addresses": {eachEmail, eachIPv4, 1000},
	} {
		var l oauth.Throttle
		if got := guess(&l, now, 1000, c.email, c.address); got != c.want {
			t.Errorf("%s: %d tries were allowed, want %d", name, got, c.want)
		}
		if got := guess(&l, now.Add(time.Hour), 1, c.email, c.address); got != 1 {
			t.Errorf("%s: refused an hour later", name)
		}
	}
}

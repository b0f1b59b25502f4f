package account_test

import (
	"fmt"
	"strings"
	"testing"

	"steward/internal/account"
)

func TestPasswordRules(t *testing.T) {
	const email = "Ada.Lovelace@example.com"
	for password, want := range map[string]string{
		"":                             fmt.Sprintf("at least %d characters", account.MinPassword),
		"ninechars":                    fmt.Sprintf("at least %d characters", account.MinPassword),
		"ñandúñandú":                   "easy to guess", // ten characters, a repetition
		"kettle moss":                  "",
		"correct horse battery":        "",
		"ten-letter":                   "",
		"x7#kQ9!mZ2":                   "",
		"密码很长的一句话语呀":                   "",
		strings.Repeat("a b", 342):     "too long",
		"not utf-8 \xff\xfe\xfd":       "invalid characters",
		"ADA.lovelace@example.com":     "email address",
		"ada.lovelace":                 "email address",
		"Ada.Lovelace2024!":            "email address",
		"ada.lovelace's engine":        "",
		"password123":                  "easy to guess",
		"Password2024!":                "easy to guess",
		"P@ssw0rd123":                  "easy to guess",
		"passwordpassword":             "easy to guess",
		"123password!":                 "easy to guess",
		"correcthorsebatterystaple":    "easy to guess",
		"Summer2024!!":                 "easy to guess",
		"iloveyou1234":                 "easy to guess",
		"qwertyuiop":                   "easy to guess",
		"1qaz2wsx3edc":                 "easy to guess",
		"1234567890":                   "easy to guess",
		"0123456789":                   "easy to guess",
		"98765432109":                  "easy to guess",
		"abcdefghijk":                  "easy to guess",
		"aaaaaaaaaaaa":                 "easy to guess",
		"abcabcabcabc":                 "easy to guess",
		"   password   ":               "easy to guess",
		"password for the summer home": "",
	} {
		got := account.PasswordProblem(email, password)
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", password, got, want)
		}
	}
	if got := account.PasswordProblem("", "kettle moss"); got != "" {
		t.Errorf("without an email address: %q", got)
	}
}

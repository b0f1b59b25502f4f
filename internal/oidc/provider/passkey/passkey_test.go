package passkey_test

import (
	"strings"
	"testing"

	"steward/internal/oidc/provider/passkey"
)

func TestPasskeysNeedAHostNameAndHTTPS(t *testing.T) {
	for baseURL, reason := range map[string]string{
		"https://steward.example.com":      "",
		"https://steward.example.com:8443": "",
		"http://localhost:8080":            "",
		"http://steward.localhost:8080":    "",
		"http://127.0.0.1:8080":            "IP address 127.0.0.1",
		"https://192.0.2.1":                "IP address 192.0.2.1",
		"https://[2001:db8::1]:8443":       "IP address 2001:db8::1",
		"http://steward.example.com":       "HTTPS",
		"http://notlocalhost":              "HTTPS",
	} {
		var m passkey.Manager
		if err := m.Open(baseURL); err != nil {
			t.Errorf("%s: %v", baseURL, err)
		}
		if got := m.Unavailable(); (got == "") != (reason == "") || !strings.Contains(got, reason) {
			t.Errorf("%s: got %q, want a reason with %q", baseURL, got, reason)
		}
	}
}

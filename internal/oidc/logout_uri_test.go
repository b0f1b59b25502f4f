package oidc

import "testing"

func TestLogoutURIsAreSafe(t *testing.T) {
	for uri, want := range map[string]bool{
		"https://rp.example.com/logout":      true,
		"https://rp.example.com/logout?x=1":  true,
		"http://127.0.0.1:8080/logout":       true,
		"http://[::1]/logout":                true,
		"http://localhost/logout":            true,
		"http://rp.example.com/logout":       false,
		"https://rp.example.com/logout#x":    false,
		"https://rp.example.com/logout#":     false,
		"https://user@rp.example.com/logout": false,
		"com.example.app:/logout":            false,
		"javascript:alert(1)":                false,
		"data:text/html,x":                   false,
		"/logout":                            false,
		"https://":                           false,
		"":                                   false,
		"https://rp.example.com/logout x":    false,
		"https://rp.example.com/\r\nlogout":  false,
	} {
		if got := isLogoutURI(uri); got != want {
			t.Errorf("%q: got %v", uri, got)
		}
	}
}

package pages_test

import (
	"testing"

	"steward/internal/oidc/provider/pages"
)

func TestNamesOfBrowsers(t *testing.T) {
	const chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
	for agent, want := range map[string]string{
		chrome: "Chrome", chrome + " Edg/140.0.0.0": "Edge", "curl/8.5.0": "", "": "",
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0": "Firefox",
	} {
		if got := pages.BrowserName(agent); got != want {
			t.Errorf("%q: got %q, want %q", agent, got, want)
		}
	}
}

package session

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"steward/internal/cli/contexts"
	"steward/internal/cli/exit"
)

func TestContextIsThatOfTheFlagElseTheEnvironmentElseTheCurrentOne(t *testing.T) {
	all := contexts.All{Current: "a", Contexts: map[string]contexts.Context{
		"a": {URL: "http://a", Key: "key-a"}, "b": {URL: "http://b", Key: "key-b"},
	}}
	for name, test := range map[string]struct {
		flag    string
		environ []string
		all     contexts.All
		want    string // URL and key, or the exit code
	}{
		"current":            {"", nil, all, "http://a key-a"},
		"flag":               {"b", nil, all, "http://b key-b"},
		"flag over both":     {"b", []string{"STEWARD_URL=http://c", "STEWARD_KEY=key-c"}, all, "http://b key-b"},
		"both variables":     {"", []string{"STEWARD_URL=http://c/", "STEWARD_KEY=key-c"}, all, "http://c key-c"},
		"URL of a context":   {"", []string{"STEWARD_URL=http://b"}, all, "http://b key-b"},
		"unknown URL":        {"", []string{"STEWARD_URL=http://c"}, all, "code 4"},
		"wrong URL":          {"", []string{"STEWARD_URL=c"}, all, "code 2"},
		"key alone":          {"", []string{"STEWARD_KEY=key-c"}, all, "http://a key-c"},
		"key without server": {"", []string{"STEWARD_KEY=key-c"}, contexts.All{}, "code 4"},
		"empty variables":    {"", []string{"STEWARD_URL=", "STEWARD_KEY="}, all, "http://a key-a"},
		"nothing":            {"", nil, contexts.All{}, "code 4"},
		"unknown context":    {"c", nil, all, "code 2"},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Env{Program: Program{Environ: test.environ}, context: test.flag}
			_, c, err := e.choose(test.all)
			got := c.URL + " " + c.Key
			if err != nil {
				got = "code " + string(rune('0'+exit.Code(err)))
			}
			if got != test.want {
				t.Errorf("got %s (%v), want %s", got, err, test.want)
			}
		})
	}
}

// TestContextOfAURLIsAlwaysTheSame has several contexts for one server.
func TestContextOfAURLIsAlwaysTheSame(t *testing.T) {
	all := contexts.All{Current: "x", Contexts: map[string]contexts.Context{"x": {URL: "http://x"}}}
	for _, name := range []string{"f", "e", "d", "c", "b", "a"} {
		all.Contexts[name] = contexts.Context{URL: "http://h", Key: name}
	}
	for range 20 {
		if name, _, err := chooseURL(all, "http://h", ""); err != nil || name != "a" {
			t.Fatalf("got %s, %v", name, err)
		}
	}
}

func TestUserWithoutOrganizationIsExplained(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"id": "u"}`) }))
	defer server.Close()
	s := (&Env{}).NewSession(contexts.File{}, "", contexts.Context{URL: server.URL, Key: "k"})
	if _, _, err := s.Profile(t.Context()); err == nil || strings.Contains(err.Error(), "%!") {
		t.Errorf("got %v", err)
	}
}

func TestOriginsOfServers(t *testing.T) {
	for text, want := range map[string]string{
		"https://Steward.example.com/": "https://steward.example.com", "http://127.0.0.1:8080": "http://127.0.0.1:8080",
		"localhost:8080": "", "ftp://h": "", "https://h/path": "", "https://u:p@h": "", "https://h?q": "", "https://": "",
	} {
		if got, err := ParseOrigin(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

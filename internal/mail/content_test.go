package mail

import (
	"strings"
	"testing"
	"time"
)

func TestPreviewsAreComplete(t *testing.T) {
	list := Previews()
	if len(list) != 4+len(notices) {
		t.Errorf("%d previews", len(list))
	}
	for _, p := range list {
		text, err := p.Text()
		must(t, err)
		html, err := p.HTML()
		must(t, err)
		for _, want := range append(p.Paragraphs, p.Link, p.Action) {
			if !strings.Contains(text, want) || !strings.Contains(html, want) {
				t.Errorf("%s does not have %q: %s\n%s", p.Name, want, text, html)
			}
		}
		if p.Subject == "" || p.Link == "" || strings.Contains(html, "src=") || strings.Contains(html, "<style") {
			t.Errorf("%s: %s", p.Name, html)
		}
	}
}

// TestNamesAreNoLinks has names of organizations and people that mail programs could make links of.
func TestNamesAreNoLinks(t *testing.T) {
	for _, name := range []string{
		"Win a car at https://evil.example.com", "evil.example.com/win", "WWW.evil.example", strings.Repeat("Buy now! ", 20),
	} {
		c := Invitation{Org: name, Inviter: name, Role: "viewer", Link: "https://steward.example.com"}.Content()
		if text, err := c.Text(); err != nil || strings.Contains(c.Subject+text, name) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestEveryNoticeHasAText(t *testing.T) {
	for _, e := range []Event{
		PasswordChanged, NewDevice, PasskeyAdded, PasskeyRemoved, FactorChanged, FactorsCleared, IdentityLinked,
		IdentityUnlinked, EmailChanging,
	} {
		if notices[e].sentence == "" {
			t.Errorf("the notice %s has no text", e)
		}
	}
}

func TestUnknownNoticeHasAText(t *testing.T) {
	if c := (Notice{Name: "of tomorrow"}).Content(); c.Subject != "Your account was changed" {
		t.Errorf("got %+v", c)
	}
}

func TestPausesGrow(t *testing.T) {
	for attempts, want := range map[int64]time.Duration{
		1: time.Minute, 2: 2 * time.Minute, 5: 16 * time.Minute, 9: maxPause, 100: maxPause,
	} {
		if got := pauseAfter(attempts); got != want {
			t.Errorf("%d attempts: %s, want %s", attempts, got, want)
		}
	}
}

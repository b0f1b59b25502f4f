package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/cli/session"
	"steward/internal/mail"
	"steward/internal/oidc/provider/signin"
)

func TestEveryNoticeHasAText(t *testing.T) {
	other := mail.Notice{Name: "none"}.Content().Subject
	for _, n := range []signin.Notice{
		signin.NoticePassword, signin.NoticeDevice, signin.NoticePasskey, signin.NoticePasskeyRemoved, signin.NoticeFactor,
		signin.NoticeFactorsCleared, signin.NoticeIdentity, signin.NoticeIdentityRemoved, signin.NoticeEmail,
	} {
		if got := (mail.Notice{Name: string(n)}).Content().Subject; got == other {
			t.Errorf("the notice %s has no text", n)
		}
	}
}

func TestMailPreviewShowsAllMail(t *testing.T) {
	var out bytes.Buffer
	p := program{Program: session.Program{Out: &out, Err: &out}}
	if code := p.run(t.Context(), []string{"steward", "mail", "preview"}); code != 0 {
		t.Fatalf("exit code %d: %s", code, &out)
	}
	dir := filepath.Join(t.TempDir(), "mail")
	if code := p.run(t.Context(), []string{"steward", "mail", "preview", "--dir", dir}); code != 0 {
		t.Fatalf("exit code %d: %s", code, &out)
	}
	for _, preview := range mail.Previews() {
		if !strings.Contains(out.String(), "Subject: "+preview.Subject) {
			t.Errorf("%s is not printed", preview.Name)
		}
		for _, ending := range []string{".txt", ".html"} {
			text, err := os.ReadFile(filepath.Join(dir, preview.Name+ending))
			if err != nil || !strings.Contains(string(text), preview.Link) {
				t.Errorf("%s%s: %v", preview.Name, ending, err)
			}
		}
	}
}

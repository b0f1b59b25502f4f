package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/cli/session"
	"steward/internal/mail"
)

func TestMailPreviewShowsAllMail(t *testing.T) {
	var out bytes.Buffer
	p := program{session.Program{Out: &out, Err: &out}}
	if code := run(t.Context(), p.rootCommand(), []string{"steward", "mail", "preview"}); code != 0 {
		t.Fatalf("exit code %d: %s", code, &out)
	}
	dir := filepath.Join(t.TempDir(), "mail")
	if code := run(t.Context(), p.rootCommand(), []string{"steward", "mail", "preview", "--dir", dir}); code != 0 {
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

package e2e

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/e2e/sink"
)

// TestWalkFromAnotherGateway pastes the commands of docs/webhooks.md into a shell. What they print is compared with
// the document, in which … stands for anything.
func TestWalkFromAnotherGateway(t *testing.T) {
	t.Parallel()
	s, k := installation.Start(t, "sqlite"), sink.New(t)
	document, err := os.ReadFile(filepath.Join(process.Root(t), "docs", "webhooks.md"))
	s.Must(err)
	_, walk, _ := strings.Cut(string(document), "\n## Coming from another gateway\n")
	walk, _, _ = strings.Cut(walk, "\n## ")
	var script strings.Builder
	var want []string
	for _, block := range regexp.MustCompile("(?s)```(\\w*)\n(.*?)```").FindAllStringSubmatch(walk, -1) {
		switch block[1] {
		case "sh":
			script.WriteString(block[2])
		case "":
			want = append(want, strings.Split(strings.TrimSpace(block[2]), "\n")...)
		}
	}
	binary, err := process.Build()
	s.Must(err)
	cmd := exec.Command("bash", "-e", "-c", strings.ReplaceAll(script.String(), "https://app.example.com", k.URL))
	cmd.Env = []string{
		"STEWARD_URL=" + s.URL, "STEWARD_KEY=" + s.Key, "HOME=" + t.TempDir(), "PATH=" + filepath.Dir(binary) + ":/usr/bin:/bin",
	}
	out, err := cmd.CombinedOutput()
	if err != nil || len(want) < 10 {
		t.Fatalf("%v\n%s", err, out)
	}
	rest := string(out)
	for _, line := range want {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*")
		at := regexp.MustCompile(pattern).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("nothing matches %s in what follows:\n%s\nof all:\n%s", line, rest, out)
		}
		rest = rest[at[1]:]
	}
	for path, want := range map[string][]string{
		"/billing": {`{"id": "evt_1", "type": "invoice.paid"}`},
		"/ledger":  {`{"id": "evt_1", "type": "invoice.paid"}`, `{"id": "evt_2", "type": "invoice.created"}`},
		"/deploy":  {`{"ref": "refs/heads/main"}`},
		"/slack":   {`{"text":"Test: A destination fails\nThis is a test. Nothing is wrong."}`},
	} {
		got := map[string]bool{}
		for _, r := range k.Wait(path, len(want)) {
			got[r.Body] = true
		}
		if bodies := slices.Sorted(maps.Keys(got)); !slices.Equal(bodies, want) {
			t.Errorf("%s got %q, want %q", path, bodies, want)
		}
	}
}

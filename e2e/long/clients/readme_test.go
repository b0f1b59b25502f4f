package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"steward/e2e/process"
)

// TestReadmeWalkOnABusyMachine pastes the commands of "Try it" into a shell, as a newcomer does, while
// other programs take all processors. What they print is compared with the README, in which … stands
// for anything.
func TestReadmeWalkOnABusyMachine(t *testing.T) {
	if !process.OwnNetwork(t) {
		return
	}
	for range 2 * runtime.NumCPU() {
		busy := exec.Command("sh", "-c", "while :; do :; done")
		busy.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = busy.Process.Kill()
			_ = busy.Wait() // reports the kill
		})
	}
	dir := t.TempDir()
	binary, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	// Everything was built already, and in a network of its own nothing can be downloaded.
	builds := fmt.Sprintf("#!/bin/sh\n[ \"$*\" = \"build -o bin/steward ./cmd/steward\" ] && mkdir bin && cp %s bin/steward\n", binary)
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(builds), 0o755); err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(process.Root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, walk, _ := strings.Cut(string(readme), "\n## Try it\n")
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
	script.WriteString("wait $steward && echo stopped\n")
	want = append(want, "stopped")
	cmd := exec.Command("bash", "-c", script.String())
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+dir+":/usr/bin:/bin", "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
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
}

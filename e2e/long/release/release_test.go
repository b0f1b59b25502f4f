// Package release makes releases of this tree for one platform, and uses what they consist of as those
// who install them do.
package release

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// TestReleases makes a release of an untagged tree and one of a tag, and uses both as those who install them do: the archive, and
// packages that are installed, started, upgraded and removed.
func TestReleases(t *testing.T) {
	tree := cloneTree(t)
	var packages [2]struct{ dist, version string }
	for i, tag := range []string{"", "v0.1.0"} {
		if tag != "" {
			run(t, "git", "-C", tree, "tag", tag)
		}
		p := &packages[i]
		p.dist = filepath.Join(t.TempDir(), "dist")
		run(t, "env", "--unset=VERSION", "TRIM=false", "PLATFORMS=linux/"+runtime.GOARCH, "DIST="+p.dist, "make", "--directory="+tree, "release")
		run(t, "env", "--chdir="+p.dist, "sha256sum", "--check", "--strict", "SHA256SUMS")
		p.version = useArchive(t, p.dist)
		if tag != "" && p.version != tag || tag == "" && !untagged.MatchString(p.version) {
			t.Errorf("the release of the tag %q has the version %q", tag, p.version)
		}
	}
	scripts, err := filepath.Abs("testdata")
	must(t, err)
	if os.Getuid() != 0 {
		t.Fatal("packages can be installed by root only")
	}
	for _, kind := range []string{"deb", "rpm"} {
		t.Run(kind, func(t *testing.T) {
			shared := t.TempDir()
			run(t, "cp", "--recursive", scripts+"/.", shared)
			command := []string{"env", "TMPDIR=" + t.TempDir(), filepath.Join(scripts, "machine.sh"), shared, "/mnt/" + kind + ".sh"}
			for _, p := range packages {
				name := filepath.Base(only(t, p.dist, "*."+kind))
				run(t, "cp", filepath.Join(p.dist, name), shared)
				command = append(command, "/mnt/"+name, p.version)
			}
			t.Log(run(t, command...))
		})
	}
	buildImage(t, packages[1].dist)
}

var untagged = regexp.MustCompile(`^v0\.0\.0~git[0-9]{14}\.[0-9a-f]{8}$`)

// TestVersionsAscend compares the versions of commits as dpkg does.
func TestVersionsAscend(t *testing.T) {
	tree := t.TempDir()
	tool, err := filepath.Abs("../../../tools/version")
	must(t, err)
	version := func() string { return strings.TrimSpace(run(t, "env", "--chdir="+tree, tool)) }
	if got := version(); got != "v0.0.0~dev" {
		t.Errorf("without a repository it is %s", got)
	}
	git(t, tree, "init", "--quiet")
	commit := func(at string) {
		t.Setenv("GIT_COMMITTER_DATE", at)
		git(t, tree, "commit", "--quiet", "--allow-empty", "--message=x")
	}
	var all []string
	for i, tag := range []string{"", "", "v0.1.0-rc.1", "", "v0.1.0", "", "v0.2.0"} {
		commit(fmt.Sprintf("2026-01-%02dT00:00:00Z", i+1))
		if tag != "" {
			git(t, tree, "tag", tag)
		}
		all = append(all, version())
		if tag != "" && version() != tag {
			t.Errorf("the version of %s is %s", tag, version())
		}
	}
	for i := 1; i < len(all); i++ { // "-" is replaced as tools/release does
		low, high := strings.Replace(all[i-1][1:], "-", "~", 1), strings.Replace(all[i][1:], "-", "~", 1)
		run(t, "dpkg", "--compare-versions", low, "lt", high)
	}
}

// cloneTree returns a repository without tags, whose only branch has this tree with the changes that are not committed.
func cloneTree(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	must(t, err)
	tree := filepath.Join(t.TempDir(), "tree")
	run(t, "mkdir", tree)
	run(t, "sh", "-c", `cd "$0" && git ls-files -z --cached --others --exclude-standard | xargs -0 sh -c 'for f; do [ ! -e "$f" ] || printf "%s\0" "$f"; done' sh | tar -c --null -T - | tar -x -C "$1"`, root, tree)
	git(t, tree, "init", "--quiet")
	git(t, tree, "add", "--all")
	git(t, tree, "commit", "--quiet", "--message=release")
	return tree
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	run(t, append([]string{"git", "-C", dir, "-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...)
}

// useArchive runs the binary of an archive, and returns its version.
func useArchive(t *testing.T, dist string) (version string) {
	t.Helper()
	name := "steward_linux_" + runtime.GOARCH
	unpacked := t.TempDir()
	run(t, "tar", "-x", "-f", filepath.Join(dist, name+".tar.gz"), "-C", unpacked)
	binary := filepath.Join(unpacked, name, "steward")
	wantModules(t, binary, filepath.Join(dist, name+".cdx.json"))
	return strings.TrimSpace(strings.TrimPrefix(run(t, binary, "--version"), "steward "))
}

// wantModules compares a bill of materials with what is in a binary.
func wantModules(t *testing.T, binary, document string) {
	t.Helper()
	info, err := buildinfo.ReadFile(binary)
	must(t, err)
	text, err := os.ReadFile(document)
	must(t, err)
	var bill struct{ Components []struct{ PURL string } }
	must(t, json.Unmarshal(text, &bill))
	if len(info.Deps) == 0 || len(bill.Components) != len(info.Deps)+1 {
		t.Fatalf("%d components of %d modules and the standard library", len(bill.Components), len(info.Deps))
	}
	for i, m := range info.Deps {
		if want := "pkg:golang/" + m.Path + "@" + m.Version; bill.Components[i+1].PURL != want {
			t.Errorf("got %s, want %s", bill.Components[i+1].PURL, want)
		}
	}
}

// buildImage builds the image where a builder exists.
func buildImage(t *testing.T, dist string) {
	builder, err := exec.LookPath("buildah")
	if err != nil {
		t.Log("buildah is not installed: the image was not built")
		return
	}
	root := filepath.Dir(dist) // the Dockerfile copies dist/image
	file, err := filepath.Abs("../../../deploy/Dockerfile")
	must(t, err)
	storage := []string{"--storage-driver", "vfs", "--root", filepath.Join(t.TempDir(), "root"), "--runroot", filepath.Join(t.TempDir(), "run")}
	build := append([]string{builder}, storage...)
	build = append(build, "build", "--isolation", "chroot", "--build-arg", "TARGETARCH="+runtime.GOARCH, "--file", file, "--tag", "steward", root)
	run(t, build...)
	inspect := append([]string{builder}, storage...)
	config := run(t, append(inspect, "inspect", "--type", "image", "--format", "{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}}", "steward")...)
	if strings.TrimSpace(config) != "65532:65532 [/usr/bin/steward]" {
		t.Errorf("the image has %q", config)
	}
}

// only returns the one file that matches a pattern.
func only(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	must(t, err)
	if len(found) != 1 {
		t.Fatalf("%s matches %q", pattern, found)
	}
	return found[0]
}

// run runs a command and returns what it writes to its standard output.
func run(t *testing.T, command ...string) string {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v: %s%s", command, err, out, &stderr)
	}
	return string(out)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Package release makes a release of this tree for one platform, and uses what it consists of as those
// who install it do.
package release

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const version = "v0.1.0-test"

// TestRelease makes a release, and runs the binary of each of its parts.
func TestRelease(t *testing.T) {
	dist := filepath.Join(t.TempDir(), "dist")
	run(t, "env", "TRIM=false", "PLATFORMS=linux/"+runtime.GOARCH, "VERSION="+version, "DIST="+dist, "../../../tools/release")
	run(t, "env", "--chdir="+dist, "sha256sum", "--check", "--strict", "SHA256SUMS")
	name := "steward_" + strings.TrimPrefix(version, "v") + "_linux_" + runtime.GOARCH

	unpacked := t.TempDir()
	run(t, "tar", "-x", "-f", filepath.Join(dist, name+".tar.gz"), "-C", unpacked)
	binary := filepath.Join(unpacked, name, "steward")
	wantVersion(t, binary)
	wantModules(t, binary, filepath.Join(dist, name+".cdx.json"))

	installed := t.TempDir()
	run(t, "dpkg-deb", "--extract", only(t, dist, "*.deb"), installed)
	wantVersion(t, filepath.Join(installed, "usr/bin/steward"))
	for file, mode := range map[string]os.FileMode{
		"etc/steward/steward.env": 0o600, "usr/lib/systemd/system/steward.service": 0o644, "usr/lib/sysusers.d/steward.conf": 0o644,
	} {
		info, err := os.Stat(filepath.Join(installed, file))
		must(t, err)
		if info.Mode() != mode {
			t.Errorf("%s has mode %o", file, info.Mode())
		}
	}
	only(t, dist, "*.rpm")
	buildImage(t, dist)
}

// wantVersion runs a binary.
func wantVersion(t *testing.T, binary string) {
	t.Helper()
	if got := run(t, binary, "--version"); got != "steward "+version+"\n" {
		t.Errorf("%s tells %q", binary, got)
	}
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
		t.Fatalf("%q: %v: %s", command, err, &stderr)
	}
	return string(out)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

package datadir

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/errs"
	"steward/internal/id"
)

const lockDirVariable = "STEWARD_TEST_LOCK_DIR"

// TestLockHelper is the second process of the tests below: it locks, prints the result, and holds
// the lock until its input ends.
func TestLockHelper(t *testing.T) {
	dir := os.Getenv(lockDirVariable)
	if dir == "" {
		return // run as a test of its own
	}
	if _, err := Acquire(dir); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("locked")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		fmt.Println(err)
	}
}

// lockInProcess runs TestLockHelper in a process of its own, and returns the process and the first
// line that it printed.
func lockInProcess(t *testing.T, dir string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestLockHelper$")
	cmd.Env = append(os.Environ(), lockDirVariable+"="+dir)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // stays open until Wait, and the helper with it
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd, line[:len(line)-1]
}

func TestLockExcludesOtherProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "data")
	lock, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory is %v, %v", info.Mode(), err)
	}
	_, got := lockInProcess(t, dir)
	if want := fmt.Sprintf("data directory %s is in use by process %d", dir, os.Getpid()); got != want {
		t.Errorf("the other process printed %q, want %q", got, want)
	}
	lock.Release()
	if _, got := lockInProcess(t, dir); got != "locked" {
		t.Errorf("after Release the other process printed %q", got)
	}
}

func TestLockEndsWithItsProcess(t *testing.T) {
	dir := t.TempDir()
	cmd, got := lockInProcess(t, dir)
	if got != "locked" {
		t.Fatal(got)
	}
	want := fmt.Sprintf("data directory %s is in use by process %d", dir, cmd.Process.Pid)
	_, err := Acquire(dir)
	if err == nil || err.Error() != want {
		t.Fatalf("Acquire returned %v, want %q", err, want)
	}
	if errs.KindOf(err) != errs.Conflict {
		t.Errorf("kind is %s", errs.KindOf(err))
	}
	if err := cmd.Process.Kill(); err != nil { // SIGKILL: it cannot clean up
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	lock, err := Acquire(dir)
	if err != nil {
		t.Fatalf("after kill -9: %v", err)
	}
	lock.Release()
}

func TestLockExcludesASecondLockOfTheProcess(t *testing.T) {
	dir := t.TempDir()
	lock, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if _, err := Acquire(dir); errs.KindOf(err) != errs.Conflict {
		t.Errorf("the second Acquire returned %v", err)
	}
}

func TestLockOfAFileFails(t *testing.T) {
	file := writeFile(t, "file", "")
	if _, err := Acquire(file); err == nil {
		t.Error("a file was locked as a directory")
	}
}

func TestWriteAddresses(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []Addresses{
		{PID: 1, Version: "dev", BaseURL: "http://a", Listen: map[string]string{"api": "127.0.0.1:1", "s3": "127.0.0.1:2"}},
		{PID: 2, Version: "v1", BaseURL: "http://b", Listen: map[string]string{"api": "127.0.0.1:3"}},
	} {
		if err := WriteAddresses(dir, want); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(filepath.Join(dir, "steward.json"))
		if err != nil {
			t.Fatal(err)
		}
		var got Addresses
		if err := json.Unmarshal(content, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("%d files are left, want one", len(entries))
	}
	if err := WriteAddresses(filepath.Join(dir, "missing"), Addresses{}); err == nil {
		t.Error("a missing directory was written to")
	}
	if err := os.Mkdir(filepath.Join(dir, "steward.json.tmp"), 0o700); err != nil { // prevents the next write
		t.Fatal(err)
	}
	if err := WriteAddresses(dir, Addresses{PID: 3}); err == nil {
		t.Error("a directory was replaced")
	}
	if _, err := os.Stat(filepath.Join(dir, "steward.json")); err == nil {
		t.Error("the addresses of an earlier process are still there")
	}
}

func TestNodeIDStays(t *testing.T) {
	dir := t.TempDir()
	first, err := NodeID(dir)
	if err != nil || !id.Is(id.Node, first) {
		t.Fatalf("%q, %v", first, err)
	}
	if again, err := NodeID(dir); err != nil || again != first {
		t.Errorf("%q, %v, want %q", again, err, first)
	}
	if err := os.WriteFile(filepath.Join(dir, "node"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if other, err := NodeID(dir); err == nil {
		t.Errorf("an empty file is the id %q", other)
	}
}

// writeFile writes a file into a directory of the test and returns its path.
func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLockWaitsForAMoment acquires a lock that steward doctor holds while it looks for a server.
func TestLockWaitsForAMoment(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		held, err := Acquire(dir)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(20*time.Millisecond, held.Release)
		lock, err := Acquire(dir)
		if err != nil {
			t.Fatal(err)
		}
		lock.Release()
	})
}

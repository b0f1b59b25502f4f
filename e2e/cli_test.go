package e2e

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/e2e/sink"
	"steward/internal/waittest"
)

// TestCLI runs the scripts of testdata/cli against a real server. Besides the commands of testscript they
// have:
//
//	code N COMMAND …           runs a command that ends with this exit code
//	capture NAME REGEXP        sets a variable to the first group of a match in the last output
//	tty WIDTH INPUT COMMAND …  runs a command on a terminal of this width, on which INPUT is typed; it may
//	                           have \n and \t
//	delivered WEBHOOK STATUS   waits for a delivery with this status
//
// Requests to $SINK are answered with 200, those to $SINK/refused with 503.
func TestCLI(t *testing.T) {
	t.Parallel()
	runTestscripts(t, installation.StartWithOwner(t, "sqlite"), "testdata/cli")
}

// TestCLIRegions runs the scripts of testdata/cli_regions, where another region has its databases on a
// PostgreSQL server and its stores on a Redis server.
func TestCLIRegions(t *testing.T) {
	t.Parallel()
	runTestscripts(t, installation.StartExternal(t, "sqlite").Steward, "testdata/cli_regions")
}

// runTestscripts runs the scripts of a directory.
func runTestscripts(t *testing.T, s *installation.Steward, dir string) {
	binary, err := process.Build()
	s.Must(err)
	sink := sink.New(t)
	sink.Status("/refused", 503)
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(binary)+string(filepath.ListSeparator)+os.Getenv("PATH"))
			env.Setenv("HOME", env.Getenv("WORK"))
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.Getenv("WORK"), ".config"))
			env.Setenv("STEWARD_URL", s.URL)
			env.Setenv("STEWARD_KEY", s.Key)
			env.Setenv("KEY", s.Key)
			env.Setenv("SERVER", s.URL)
			env.Setenv("ORG", s.OrgID)
			env.Setenv("SINK", sink.URL)
			env.Setenv("TERM", "xterm")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"code": exitsWith, "capture": capture, "tty": onTerminal, "delivered": delivered(t),
		},
	})
}

// delivered returns the command that waits for a delivery.
func delivered(t testing.TB) func(ts *testscript.TestScript, neg bool, args []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 2 {
			ts.Fatalf("usage: delivered WEBHOOK STATUS")
		}
		waittest.Until(t, "a delivery of "+args[0]+" with status "+args[1], func() (int, bool) {
			ts.Check(ts.Exec("steward", "webhook", "delivery", "list", args[0], "--status", args[1]))
			return 0, strings.Contains(ts.ReadFile("stdout"), args[1])
		})
	}
}

// exitsWith runs a command and checks its exit code.
func exitsWith(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND …")
	}
	code, err := installation.ExitCode(ts.Exec(args[1], args[2:]...))
	ts.Check(err)
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: capture NAME REGEXP")
	}
	m := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if m == nil {
		ts.Fatalf("no match of %s in %s", args[1], ts.ReadFile("stdout"))
	}
	ts.Setenv(args[0], m[1])
}

// onTerminal runs a command on a pseudo-terminal. What it prints there is the output of the script.
func onTerminal(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: tty WIDTH INPUT COMMAND …")
	}
	width, err := strconv.ParseUint(args[0], 10, 16)
	ts.Check(err)
	if args[2] == "steward" { // which is in the PATH of the script only
		args[2], err = process.Build()
		ts.Check(err)
	}
	cmd := exec.Command(args[2], args[3:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "XDG_CONFIG_HOME", "STEWARD_URL", "STEWARD_KEY", "TERM", "NO_COLOR", "ZDOTDIR"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: uint16(width)})
	ts.Check(err)
	defer func() { _ = terminal.Close() }()
	_, err = io.WriteString(terminal, strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(args[1]))
	ts.Check(err)
	var out bytes.Buffer
	if _, err := io.Copy(&out, terminal); err != nil && !errors.Is(err, syscall.EIO) { // Linux's end of a terminal
		ts.Check(err)
	}
	err = cmd.Wait()
	_, writeErr := ts.Stdout().Write(bytes.ReplaceAll(out.Bytes(), []byte("\r\n"), []byte("\n")))
	ts.Check(writeErr)
	if (err != nil) != neg {
		ts.Fatalf("the command ends with %v: %s", err, out.String())
	}
}

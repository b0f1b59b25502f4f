package clients

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

// sdkDir has the public clients of the platform.
const sdkDir = "../../sdk/node_modules/"

// bunPath returns the absolute path of Bun. It fails the test if the clients are not installed.
func bunPath(s *installation.Steward) string {
	s.T.Helper()
	path, err := filepath.Abs(sdkDir + ".bin/bun")
	s.Must(err)
	for _, needed := range []string{path, sdkDir + "@agentuity/cli", sdkDir + "@agentuity/core", sdkDir + "@agentuity/runtime", sdkDir + "@agentuity/server"} {
		if _, err := os.Stat(needed); err != nil {
			s.T.Fatalf("the clients of the platform are not installed: run `make deps`: %v", err)
		}
	}
	return path
}

// finish runs a command and returns its outputs and its exit code.
func finish(t testing.TB, cmd *exec.Cmd) (stdout, stderr string, code int) {
	t.Helper()
	var out, log bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &log
	err := cmd.Run()
	if !isExit(err) {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return out.String(), log.String(), cmd.ProcessState.ExitCode()
}

// isExit reports whether a command ran to its end, with whatever exit code.
func isExit(err error) bool {
	var exit *exec.ExitError
	return err == nil || errors.As(err, &exit) && exit.Exited()
}

// viewerKey invites a member, who creates an API key and becomes a viewer: viewers create none.
func viewerKey(s *installation.Steward, email string) string {
	s.T.Helper()
	b, userID := s.Invite(email, "member")
	made := b.PostAccount("/account/keys", map[string]string{"org": s.OrgID, "name": "viewer", "lifetime": "90d"})
	value := regexp.MustCompile(`sk_\w{49}`).FindString(made.Body)
	if value == "" {
		s.T.Fatalf("the page shows no key: %s", made.Body)
	}
	s.Call("PUT", "/oidc/org/members/"+userID, object{"role": "viewer"}).Want(200)
	return value
}

// sdkFixture says which SDK a script uses, and with which installation; see sdk/sdk.mjs.
type sdkFixture struct {
	Package string `json:"package"`
	URL     string `json:"url"`
	Key     string `json:"key"`
	Viewer  string `json:"viewer"`
	Sink    string `json:"sink"`
	Tag     string `json:"tag"`
	Rotate  bool   `json:"rotate"`
}

// runScripts runs the scripts of some areas. A script may ask for an authorization: it prints a URL,
// the browser signs in, and the script reads the code.
func runScripts(t *testing.T, s *installation.Steward, runtime string, b *installation.Browser, f sdkFixture, areas ...string) {
	t.Helper()
	fixture, err := json.Marshal(f)
	s.Must(err)
	cmd := exec.CommandContext(t.Context(), runtime, append([]string{"../../sdk/run.mjs"}, areas...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "STEWARD_FIXTURE=" + string(fixture)}
	var log bytes.Buffer
	cmd.Stderr = &log
	in, err := cmd.StdinPipe()
	s.Must(err)
	out, err := cmd.StdoutPipe()
	s.Must(err)
	s.Must(cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		address, ok := strings.CutPrefix(lines.Text(), "authorize ")
		if !ok {
			t.Errorf("the script prints %s", lines.Text())
			continue
		}
		if _, err := fmt.Fprintln(in, b.Authorize(address).Get("code")); err != nil {
			t.Error(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, &log)
	}
}

// TestSDKs uses every function for the routes of the specification with the public SDKs of the
// platform, on both runtimes; on PostgreSQL with one of each.
func TestSDKs(t *testing.T) {
	t.Parallel()
	for _, database := range process.Databases {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			s, k := installation.StartWithOwner(t, database), sink.New(t)
			k.Status("/failing", 500)
			viewer := viewerKey(s, "viewer@example.com")
			runs := [][2]string{
				{"node", "@agentuity/core"}, {bunPath(s), "@agentuity/server"}, {"node", "@agentuity/server"}, {bunPath(s), "@agentuity/core"},
			}
			if database == "postgres" {
				runs = runs[:2]
			}
			for i, run := range runs {
				name := filepath.Base(run[0]) + "-" + filepath.Base(run[1])
				t.Run(name, func(t *testing.T) {
					f := sdkFixture{Package: run[1], URL: s.URL, Key: s.Key, Viewer: viewer, Sink: k.URL, Tag: name, Rotate: i == 0}
					runScripts(t, s, run[0], s.NewBrowser(), f, sdkAreas...)
				})
			}
		})
	}
}

// sdkAreas are the scripts that use an SDK.
var sdkAreas = []string{"account", "oidc", "webhook", "thread", "storage", "database", "retry"}

// notServed lists the functions of these services that use no route of Steward, and one that is no use
// of the API.
var notServed = []string{
	"dbLogs", "dbLogStats", "orgEnvDelete", "orgEnvGet", "orgEnvUpdate", "sessionLogs", "withWebhookErrorHandling",
}

// TestEveryFunctionOfTheSDKsIsUsed checks that each function of the services that Steward serves is used
// in a script, and named in the documentation.
func TestEveryFunctionOfTheSDKsIsUsed(t *testing.T) {
	t.Parallel()
	read := func(pattern string) (all string) {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no file %s: run `make deps` for those of the SDKs: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all += string(text)
		}
		return all
	}
	functions := regexp.MustCompile(`(?m)^export async function (\w+)`)
	scripts, documentation := read("../../sdk/*.mjs"), read("../../../docs/sdk.md")
	found := 0
	for _, service := range []string{"apikey", "db", "eval", "oauth", "org", "region", "session", "storage", "thread", "user", "webhook"} {
		for _, match := range functions.FindAllStringSubmatch(read(sdkDir+"@agentuity/core/dist/services/"+service+"/*.js"), -1) {
			name := match[1]
			if slices.Contains(notServed, name) {
				continue
			}
			found++
			if !regexp.MustCompile(`sdk\.` + name + `\b`).MatchString(scripts) {
				t.Errorf("no script uses %s", name)
			}
			if !strings.Contains(documentation, "`"+name+"`") {
				t.Errorf("docs/sdk.md does not name %s", name)
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d functions", found)
	}
}

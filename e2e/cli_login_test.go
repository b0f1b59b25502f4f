package e2e

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/internal/cli/contexts"
	"steward/internal/waittest"
)

// cli is a user of the command line, with a configuration directory.
type cli struct {
	s      *installation.Steward
	binary string
	config string
	env    []string
}

func newCLI(s *installation.Steward) *cli {
	binary, err := process.Build()
	s.Must(err)
	return &cli{s: s, binary: binary, config: s.T.TempDir()}
}

// command returns a command of the user.
func (c *cli) command(args ...string) *exec.Cmd {
	cmd := exec.Command(c.binary, args...)
	cmd.Env = append([]string{"XDG_CONFIG_HOME=" + c.config, "HOME=" + c.config, "PATH=" + os.Getenv("PATH")}, c.env...)
	return cmd
}

// run runs a command, which succeeds, and returns what it prints.
func (c *cli) run(args ...string) string {
	c.s.T.Helper()
	out, err := c.command(args...).Output()
	if err != nil {
		var exit *exec.ExitError
		_ = errors.As(err, &exit)
		c.s.T.Fatalf("steward %s: %v: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return string(out)
}

// started is a command that runs, with the lines that it prints to one stream.
type started struct {
	cmd   *exec.Cmd
	lines chan *string // closed at the end of the stream
}

// start starts a command and reads the lines of a stream that pipe returns.
func (c *cli) start(pipe func(*exec.Cmd) (io.ReadCloser, error), args ...string) *started {
	c.s.T.Helper()
	p := &started{cmd: c.command(args...), lines: make(chan *string, 10_000)}
	stream, err := pipe(p.cmd)
	c.s.Must(err)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.s.Must(p.cmd.Start())
	c.s.T.Cleanup(func() { _ = p.cmd.Process.Kill() }) // it may have ended
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(stream); scanner.Scan(); {
			p.lines <- new(scanner.Text())
		}
	}()
	return p
}

// match waits for a line that matches and returns its first group.
func (p *started) match(t testing.TB, pattern string) string {
	t.Helper()
	expr := regexp.MustCompile(pattern)
	for {
		line := waittest.Receive(t, "a line that matches "+pattern, p.lines)
		if line == nil {
			t.Fatalf("the command has ended without a line that matches %s", pattern)
			return ""
		}
		if m := expr.FindStringSubmatch(*line); m != nil {
			return m[len(m)-1]
		}
	}
}

// interrupt ends the command as Ctrl-C does and returns its exit code.
func (p *started) interrupt(t testing.TB) int {
	t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	ended := make(chan int, 1)
	go func() {
		for range p.lines { // until the stream ends
		}
		_ = p.cmd.Wait()
		ended <- p.cmd.ProcessState.ExitCode()
	}()
	return waittest.Receive(t, "the command to end", ended)
}

// signIn signs in with the device flow.
func (c *cli) signIn(b *installation.Browser) {
	c.s.T.Helper()
	p := c.start((*exec.Cmd).StderrPipe, "login", c.s.URL, "--name", "here")
	b.Visit(p.match(c.s.T, `^ +(http://\S+user_code=\S+)$`))
	p.match(c.s.T, "^Signed in to .* as "+b.Email)
	c.s.Must(p.cmd.Wait())
}

func (c *cli) contexts() contexts.File {
	return contexts.File{Path: filepath.Join(c.config, "steward", "contexts.json")}
}

func TestCLISignsInWithABrowser(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	c := newCLI(s)
	c.signIn(s.NewBrowser())
	if got := c.run("whoami"); !strings.Contains(got, installation.AdminEmail+" (owner)") {
		t.Errorf("whoami prints %q", got)
	}
	if got := c.run("context", "list"); !regexp.MustCompile(`here .* token`).MatchString(got) {
		t.Errorf("context list prints %q", got)
	}
	c.run("webhook", "create", "made-with-a-token") // scopes of the management API
	if got := c.run("consent", "list"); !strings.Contains(got, "Steward command line") {
		t.Errorf("consent list prints %q", got)
	}
	if got := c.run("consent", "get", "Steward command line", "-o", "ndjson"); !strings.Contains(got, `"client_id":"steward-cli"`) {
		t.Errorf("consent get prints %q", got)
	}
	all, err := c.contexts().Read()
	s.Must(err)
	token := all.Contexts["here"].Token
	c.run("logout")
	if got := s.As(token.Access).Call("GET", "/cli/auth/user", nil).Status; got != 401 {
		t.Errorf("after logout the token gets %d", got)
	}
}

func TestCLIRefusesAnExpiredSignIn(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	c := newCLI(s)
	c.signIn(s.NewBrowser())
	c.run("consent", "delete", "steward-cli", "--yes")
	c.expire()
	out, err := c.command("whoami").CombinedOutput()
	if code, runErr := installation.ExitCode(err); runErr != nil || code != 4 || !strings.Contains(string(out), "steward login "+s.URL) {
		t.Errorf("%v: %s", err, out)
	}
}

// expire makes the access token appear to have expired.
func (c *cli) expire() {
	c.s.T.Helper()
	c.s.Must(c.contexts().Update(func(all *contexts.All) error {
		here := all.Contexts["here"]
		here.Token.Expiry = time.Now()
		all.Contexts["here"] = here
		return nil
	}))
}

func TestCLIRefreshesTokensOnceForCommandsAtOnce(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	c := newCLI(s)
	c.signIn(s.NewBrowser())
	for range 3 {
		before, err := c.contexts().Read()
		s.Must(err)
		c.expire()
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() { _ = c.run("whoami", "-o", "json") })
		}
		group.Wait()
		after, err := c.contexts().Read()
		s.Must(err)
		if before.Contexts["here"].Token.Refresh == after.Contexts["here"].Token.Refresh {
			t.Error("the refresh token was not replaced")
		}
	}
}

func TestCLIShowsAndRevokesTheUsersOfAClient(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	c := signedInCLI(s)
	a := s.NewApplication(object{"scopes": []string{"openid"}})
	token, claims := s.NewRelyingParty(a, "openid").SignIn(s.NewBrowser())
	if got := c.run("client", "users", a.ID); !strings.Contains(got, claims.Subject) || !strings.Contains(got, "openid") {
		t.Errorf("users prints %q", got)
	}
	waittest.True(t, "the day of the activity", func() bool {
		return strings.Contains(c.run("client", "activity", a.ID), time.Now().UTC().Format("2006-"))
	})
	out, err := c.command("client", "revoke", a.ID, claims.Subject).CombinedOutput()
	asked := "'s consent, which signs the user out there, cannot be undone"
	if code, runErr := installation.ExitCode(err); runErr != nil || code != 2 || !strings.Contains(string(out), claims.Subject+asked) {
		t.Errorf("%v: %s", err, out)
	}
	c.run("client", "revoke", a.ID, claims.Subject, "--yes")
	if got := s.UserinfoStatus(token.AccessToken); got != 401 {
		t.Errorf("the token of a user who was revoked gets %d", got)
	}
}

func TestCLITellsAViewerWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	owner := signedInCLI(s)
	owner.run("db", "create", "orders")
	owner.run("kv", "create", "sessions")
	b, _ := s.Invite("viewer@example.com", "viewer")
	viewer := newCLI(s)
	viewer.signIn(b)
	for command, want := range map[string]string{
		"webhook create orders":                "an owner can change your role",
		"db shell orders -c SELECT":            "The role member is required",
		"kv cli sessions PING":                 "The role member is required",
		"member create x@example.com":          "Request id: req_",
		"project create p --context elsewhere": "steward context list",
	} {
		out, err := viewer.command(strings.Fields(command)...).CombinedOutput()
		wantCode := 4
		if strings.Contains(command, "elsewhere") {
			wantCode = 2
		}
		if code, runErr := installation.ExitCode(err); runErr != nil || code != wantCode || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v: %s", command, err, out)
		}
	}
}

package console

import (
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"steward/e2e/installation"
	"steward/e2e/process"
)

// TestPasskeyFromTheFirstStart starts the binary with a data directory alone, opens the link that it
// prints by the other name of this machine, and sets the installation up with a passkey.
func TestPasskeyFromTheFirstStart(t *testing.T) {
	if !process.OwnNetwork(t) {
		return
	}
	s := installation.Prepare(t, "sqlite")
	cmd := s.Command("serve")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := cmd.StdoutPipe()
	s.Must(err)
	s.Must(cmd.Start())
	printed := make([]byte, 64<<10)
	n, err := stdout.Read(printed) // it is written at once
	s.Must(err)
	link := regexp.MustCompile(`(?m)^Set up  (http://localhost:8080/console/setup#.*)$`).FindSubmatch(printed[:n])
	if link == nil {
		t.Fatalf("the first start prints:\n%s", printed[:n])
	}
	c := newConsole(t, s)
	c.DisableAutofill()
	a := c.NewAuthenticator()
	c.Do(chromedp.Navigate(strings.Replace(string(link[1]), "localhost", "127.0.0.1", 1)))
	c.Wait("the form at the base URL", `location.host === 'localhost:8080' && document.querySelector('[name="token"]')?.value.length === 54`)
	c.Fill("organization", "Acme")
	c.Fill("email", "ada@example.com")
	c.Press("Use a passkey instead")
	c.Press("Create passkey")
	c.Wait("the console", `location.href === 'http://localhost:8080/console/' && document.querySelector('#app h1')`)
	c.See("Acme")
	if held := a.Passkeys(); len(held) != 1 || held[0].RpID != "localhost" {
		t.Errorf("the authenticator holds %v", held)
	}
	c.command("log out", "Sign out")
	c.Press("Sign in")
	c.Press("Sign in with a passkey")
	c.Wait("the console", `location.pathname === '/console/' && document.querySelector('#app h1')`)
	c.See("Acme")
	c.Clean()
	s.Must(cmd.Process.Signal(os.Interrupt))
	_, err = io.Copy(io.Discard, stdout)
	s.Must(err)
	s.Must(cmd.Wait())
}

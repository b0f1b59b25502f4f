package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/sink"
	"steward/internal/porttest"
	"steward/internal/waittest"
)

// signedInCLI returns a user of the command line with a context.
func signedInCLI(s *installation.Steward) *cli {
	s.T.Helper()
	c := newCLI(s)
	cmd := c.command("login", s.URL, "--key", "-", "--name", "here")
	cmd.Stdin = strings.NewReader(s.Key)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.T.Fatalf("%v: %s", err, out)
	}
	return c
}

// ingest sends a request to a webhook and returns the id of the receipt.
func (c *cli) ingest(address, body string) string {
	c.s.T.Helper()
	res, err := http.Post(address, "application/json", strings.NewReader(body))
	c.s.Must(err)
	r, err := installation.ReadResponse(c.s.T, res)
	c.s.Must(err)
	return r.Want(200).Text("id")
}

// tailed starts a tail and returns it when it is connected.
func (c *cli) tailed(args ...string) *started {
	c.s.T.Helper()
	// The note that it is connected goes to standard error, the events to standard output.
	cmd := func(cmd *exec.Cmd) (io.ReadCloser, error) {
		stream, err := cmd.StdoutPipe()
		cmd.Stderr = cmd.Stdout
		return stream, err
	}
	p := c.start(cmd, append([]string{"webhook", "tail"}, args...)...)
	p.match(c.s.T, "^Following ")
	return p
}

func TestCLITailShowsRequestsAndDeliveries(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	c := signedInCLI(s)
	sink := sink.New(t)
	sink.Status("/refused", 503)
	made := s.Call("POST", "/webhook/create", object{"name": "orders"}).Want(201)
	c.run("webhook", "destination", "create", "orders", sink.URL+"/ok")
	c.run("webhook", "destination", "create", "orders", sink.URL+"/refused", "--retries", "0")

	all := c.tailed("-v")
	failed := c.tailed("orders", "--filter", "status=failed")
	raw := c.tailed("orders", "-o", "ndjson", "--filter", "event=receipt")
	id := c.ingest(made.Text("url")+"?a=b", `{"order": 7}`)
	all.match(t, `→ POST +orders\?a=b  12 B  application/json  `+id)
	all.match(t, `^ +"order": 7`)
	all.match(t, `← success  200  \d+ ms  orders  `+id+` to whds_`)
	failed.match(t, `← failed  503  \d+ ms  orders  `+id)
	line := raw.match(t, `^(\{"event":"receipt".*)$`)
	var event struct{ Data struct{ ID string } }
	s.Must(json.Unmarshal([]byte(line), &event))
	if event.Data.ID != id {
		t.Errorf("the event is %s", line)
	}
	for _, p := range []*started{all, failed, raw} {
		if code := p.interrupt(t); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}

func TestCLITailMissesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	s.Stop()
	s.Args = append(s.Args, "--listen", porttest.Address(porttest.Free(t))) // where the tail finds it again
	s.Start()
	c := signedInCLI(s)
	made := s.Call("POST", "/webhook/create", object{"name": "orders"}).Want(201)
	var sent, shown []string
	send := func(n int) {
		for range n {
			sent = append(sent, c.ingest(made.Text("url"), "{}"))
		}
	}
	receive := func(p *started, n int) {
		t.Helper()
		for range n {
			shown = append(shown, p.match(t, `→ .*(whrc_\w+)`))
		}
	}
	p := c.tailed("orders")
	send(3)
	receive(p, 3)
	s.Must(p.cmd.Process.Kill()) // as if the machine had lost its power
	_ = p.cmd.Wait()
	send(50) // while the tail is not there
	p = c.tailed("orders")
	if first := p.match(t, `→ .*(whrc_\w+)`); first == shown[len(shown)-1] {
		receive(p, 50) // it was killed after it had shown an event and before it could note that
	} else {
		shown = append(shown, first)
		receive(p, 49)
	}
	send(2)
	receive(p, 2)

	s.Stop()
	s.Start()
	send(3)
	receive(p, 3)
	p.interrupt(t)
	send(1)
	c.run("webhook", "record", "orders") // which waits until no running transaction may come before it
	p = c.tailed("orders", "--now")
	send(1)
	shown = append(shown, sent[len(sent)-2]) // which --now skips
	receive(p, 1)
	p.interrupt(t)
	p = c.tailed("orders", "--since", "1h")
	var again []string
	for range sent {
		again = append(again, p.match(t, `→ .*(whrc_\w+)`))
	}
	p.interrupt(t)
	if strings.Join(shown, " ") != strings.Join(sent, " ") || strings.Join(again, " ") != strings.Join(sent, " ") {
		t.Errorf("sent %d, shown %d:\n%v\n%v", len(sent), len(shown), sent, shown)
	}
}

func TestCLITailForwards(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	c := signedInCLI(s)
	sink := sink.New(t)
	sink.Status("/hook", 202)
	made := s.Call("POST", "/webhook/create", object{"name": "orders"}).Want(201)
	p := c.start(func(cmd *exec.Cmd) (io.ReadCloser, error) {
		stream, err := cmd.StdoutPipe()
		cmd.Stderr = cmd.Stdout
		return stream, err
	}, "webhook", "tail", "orders", "--forward", sink.URL+"/hook")
	secret := p.match(t, `signed with (whsec_\S+)$`)
	p.match(t, "^Following ")
	id := c.ingest(made.Text("url")+"?x=1", "{ \"spaces\":  1 }")
	p.match(t, `⇒ success  202  \d+ ms`)
	got := sink.Wait("/hook", 1)[0]
	if got.Body != "{ \"spaces\":  1 }" || got.Header.Get("webhook-id") != id {
		t.Errorf("got %q, %v", got.Body, got.Header)
	}
	checkSignature(t, got, secret)
	p.interrupt(t)

	// With a target that is not there, the tail goes on.
	p = c.tailed("orders", "--forward", "http://127.0.0.1:1/hook", "--secret", secret)
	c.ingest(made.Text("url"), "1")
	p.match(t, "⇒ failed .*refused")
	c.ingest(made.Text("url"), "2")
	p.match(t, "⇒ failed .*refused")
	p.interrupt(t)
}

func TestCLIRecordsAndPlays(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	c := signedInCLI(s)
	sink := sink.New(t)
	made := s.Call("POST", "/webhook/create", object{"name": "orders"}).Want(201)
	bodies := []string{"{ \"n\":1 }", "text", "\xff\x00binary", ""}
	for _, body := range bodies {
		c.ingest(made.Text("url"), body)
	}
	recorded := c.run("webhook", "record", "orders", "--since", "1h")
	if n := strings.Count(recorded, "\n"); n != len(bodies) {
		t.Fatalf("%d lines: %s", n, recorded)
	}
	file := filepath.Join(t.TempDir(), "fixtures.ndjson")
	s.Must(os.WriteFile(file, []byte(recorded), 0o600))
	player := newCLI(s) // who is not signed in
	player.run("webhook", "play", file, sink.URL+"/play", "--rate", "1000")
	for i, got := range sink.Wait("/play", len(bodies)) {
		if got.Body != bodies[i] || got.Header.Get("Content-Type") != "application/json" {
			t.Errorf("request %d: %q", i, got.Body)
		}
	}
	sink.Status("/fails", 500)
	cmd := player.command("webhook", "play", "-", sink.URL+"/fails")
	cmd.Stdin = strings.NewReader(recorded)
	out, err := cmd.CombinedOutput()
	if code, runErr := installation.ExitCode(err); runErr != nil || code != 1 || !strings.Contains(string(out), "4 of 4 requests failed") {
		t.Errorf("%v: %s", err, out)
	}
	cmd = player.command("webhook", "play", "-", sink.URL)
	cmd.Stdin = strings.NewReader("{}")
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("a file of something else: %v", err)
	}
	if got := c.run("webhook", "record", "orders", "--since", "2h", "--until", "1h"); got != "" {
		t.Errorf("of an earlier hour: %q", got)
	}
}

func TestCLIReplays(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	c := signedInCLI(s)
	sink := sink.New(t)
	sink.Status("/first", 503)
	made := s.Call("POST", "/webhook/create", object{"name": "orders"}).Want(201)
	first := s.Call("POST", "/webhook/destination-create/"+made.Text("id"),
		object{"type": "url", "config": object{"url": sink.URL + "/first", "max_retries": 0}}).Want(201).Text("id")
	var second string
	for i := range 5 {
		c.ingest(made.Text("url"), fmt.Sprint(i))
	}
	waittest.True(t, "the deliveries to fail", func() bool {
		return strings.Count(c.run("webhook", "delivery", "list", "orders", "--status", "failed"), "\n") == 6
	})
	second = s.Call("POST", "/webhook/destination-create/"+made.Text("id"),
		object{"type": "url", "config": object{"url": sink.URL + "/second", "concurrency": 1}}).Want(201).Text("id")
	if got := c.run("webhook", "replay", "orders", "--since", "1h", "--status", "failed", "--dry-run"); got != "5 deliveries would be made.\n" {
		t.Errorf("dry run: %q", got)
	}
	out := c.run("webhook", "replay", "orders", "--since", "1h", "--destination", first, "--to", second, "--rate", "100")
	if !strings.Contains(out, "is done: 5 deliveries, of which 0 failed.") {
		t.Errorf("replay: %q", out)
	}
	for i, got := range sink.Wait("/second", 5) {
		if got.Body != fmt.Sprint(i) {
			t.Errorf("request %d: %q", i, got.Body)
		}
	}
	for range 60 { // so that the replay is not done before it is cancelled
		c.ingest(made.Text("url"), "later")
	}
	var started struct{ ID, State string }
	s.Must(json.Unmarshal([]byte(c.run("webhook", "replay", "orders", "--since", "1h", "--to", second, "--rate", "1", "--detach", "-o", "json")), &started))
	c.run("webhook", "replay", "cancel", "orders", started.ID)
	if got := c.run("webhook", "replay", "get", "orders", started.ID); !strings.Contains(got, "cancelled") {
		t.Errorf("get: %q", got)
	}
	if got := c.run("webhook", "replay", "list", "orders"); strings.Count(got, "whrp_") != 2 {
		t.Errorf("list: %q", got)
	}
	cmd := c.command("webhook", "replay", "orders")
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("without --since: %v", err)
	}
}

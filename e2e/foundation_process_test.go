package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"steward/e2e/process"
	"steward/internal/waittest"
)

// TestFirstStartTellsTheKeyOnce: a first start prints a key and where to go, and later starts print no secret.
func TestFirstStartTellsTheKeyOnce(t *testing.T) {
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			s := prepare(t, name)
			said, stop := s.printed()
			key := regexp.MustCompile(`Root key +(sk_\w{49})`).FindStringSubmatch(said)
			org := regexp.MustCompile(`Organization +(org_\w{26})`).FindStringSubmatch(said)
			if key == nil || org == nil || !strings.Contains(said, "curl ") {
				t.Fatalf("a first start says:\n%s", said)
			}
			stop()
			again, stop := s.printed()
			stop()
			if strings.Contains(again, "sk_") || !strings.Contains(again, "steward root-key") {
				t.Fatalf("a later start says:\n%s", again)
			}
			s.key = key[1]
			s.run()
			if s.orgID != org[1] {
				t.Errorf("the organization is %s, not %s", s.orgID, org[1])
			}
		})
	}
}

// printed runs the process without a root key of our choice, gives what it prints until it is ready, and what stops it.
func (s *steward) printed() (said string, stop func()) {
	s.t.Helper()
	cmd := s.Command("serve", "--listen", "127.0.0.1:0", "--metrics-listen", "")
	stdout, err := cmd.StdoutPipe()
	s.must(err)
	s.must(cmd.Start())
	s.t.Cleanup(func() { cmd.Process.Kill() })
	var b strings.Builder
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		b.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "curl ") || strings.Contains(lines.Text(), "steward root-key") {
			break
		}
	}
	return b.String(), func() {
		s.must(cmd.Process.Signal(syscall.SIGTERM))
		s.must(cmd.Wait())
	}
}

// TestMasterKeyIsChanged: with the old key beside the new one everything opens; without it the start is refused.
func TestMasterKeyIsChanged(t *testing.T) {
	each(t, func(t *testing.T, s *steward) {
		body := map[string]any{"name": "sealed"}
		first := s.call("POST", "/cli/apikey", body, "Idempotency-Key", "k").want(201) // its stored answer is sealed
		s.stop()
		old, err := os.ReadFile(filepath.Join(s.Dir, "master.key"))
		s.must(err)
		s.must(os.Remove(filepath.Join(s.Dir, "master.key")))
		s.Env = []string{"STEWARD_MASTER_KEY=" + strings.Repeat("ab", 32), "STEWARD_OLD_MASTER_KEYS=" + strings.TrimSpace(string(old))}
		s.run()
		if again := s.call("POST", "/cli/apikey", body, "Idempotency-Key", "k").want(201); string(again.body) != string(first.body) {
			t.Errorf("with a new key the answer is %s, not %s", again.body, first.body)
		}
		s.stop()
		cmd := s.Command("serve", "--listen", "127.0.0.1:0")
		cmd.Env = append(cmd.Env, s.Env[0])
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "master key") {
			t.Fatalf("without the old key: %v: %s", err, out)
		}
	})
}

// TestDrain: told to stop, the process takes no new connections and finishes what runs.
func TestDrain(t *testing.T) {
	each(t, func(t *testing.T, s *steward) {
		body := `{"name":"slow but sure"}`
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		s.must(err)
		defer conn.Close()
		fmt.Fprintf(conn, "POST /cli/project HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n",
			s.key, len(body))
		in := bufio.NewReader(conn)
		if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") { // the handler runs and waits for the body
			t.Fatalf("%q %v", line, err)
		}
		in.ReadString('\n')
		s.must(s.Cmd.Process.Signal(syscall.SIGTERM))
		waittest.True(t, "the listener to be closed", func() bool {
			probe, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
			if err == nil {
				probe.Close()
			}
			return err != nil
		})
		io.WriteString(conn, body)
		res, err := http.ReadResponse(in, nil)
		s.must(err)
		if res.StatusCode != 201 {
			t.Fatalf("the running request ended with %s", res.Status)
		}
		s.must(s.Cmd.Wait())
		s.run()
		var projects []struct{ Name string }
		s.call("GET", "/cli/project", nil).want(200).into(&projects)
		if !slices.Contains(projects, struct{ Name string }{"slow but sure"}) {
			t.Errorf("it was acknowledged and is not there: %v", projects)
		}
	})
}

// TestOversize: a body that is too large is refused on both faces, with its length told or in chunks, and nothing of it is kept.
func TestOversize(t *testing.T) {
	s := begin(t, "sqlite")
	body := `{"name":"` + strings.Repeat("x", 2<<20) + `"}`
	for _, face := range []string{"", "/sdk"} {
		s.call("POST", face+"/cli/project", body).want(413)
		req, err := http.NewRequest("POST", s.URL+face+"/cli/project", io.MultiReader(strings.NewReader(body))) // of unknown length: chunked
		s.must(err)
		req.Header.Set("Authorization", "Bearer "+s.key)
		res, err := client.Do(req)
		s.must(err)
		var problem struct{ Code string }
		s.must(json.NewDecoder(res.Body).Decode(&problem))
		res.Body.Close()
		if res.StatusCode != 413 || problem.Code != "too_large" || res.Header.Get("X-Request-Id") == "" {
			t.Errorf("in chunks at %q: %s %+v", face, res.Status, problem)
		}
	}
	var projects []any
	s.call("GET", "/cli/project", nil).want(200).into(&projects)
	if len(projects) != 1 {
		t.Errorf("there are %d projects", len(projects))
	}
}

// TestTakenPort: a start that finds its port taken says which setting to change.
func TestTakenPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, flag := range []string{"--listen", "--metrics-listen"} {
		s := prepare(t, "sqlite")
		out, err := s.Command("serve", "--listen", "127.0.0.1:0", "--metrics-listen", "", flag, taken.Addr().String()).CombinedOutput()
		if err == nil || !strings.Contains(string(out), flag+": ") || !strings.Contains(string(out), "in use") {
			t.Errorf("%s: %v: %s", flag, err, out)
		}
		if said, stop := s.printed(); !strings.Contains(said, "Root key") {
			t.Errorf("after a start that failed at %s the next one does not tell the root key:\n%s", flag, said)
		} else {
			stop()
		}
	}
}

// TestListeners: health is on the API's listener; metrics and pprof are on theirs alone.
func TestListeners(t *testing.T) {
	s := begin(t, "sqlite", "--metrics-listen", "127.0.0.1:0")
	anybody := s.as("")
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/docs"} {
		anybody.call("GET", path, nil).want(200)
	}
	for _, path := range []string{"/metrics", "/debug/pprof/"} {
		anybody.call("GET", path, nil).want(404)
	}
	var addresses struct{ Listen map[string]string }
	text, err := os.ReadFile(filepath.Join(s.Dir, "steward.json"))
	s.must(err)
	s.must(json.Unmarshal(text, &addresses))
	for path, says := range map[string]string{"/metrics": `route="GET /readyz",status="200"`, "/debug/pprof/heap?debug=1": "heap profile"} {
		res, err := http.Get("http://" + addresses.Listen["metrics"] + path)
		s.must(err)
		body, err := io.ReadAll(res.Body)
		s.must(err)
		res.Body.Close()
		if res.StatusCode != 200 || !strings.Contains(string(body), says) {
			t.Errorf("%s: %s, without %s", path, res.Status, says)
		}
	}
}

// TestLog: one line for each request, in either format, with its id and route, and never a secret.
func TestLog(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			s := begin(t, "sqlite", "--log-format", format)
			made := s.call("POST", "/cli/apikey", map[string]any{"name": "very-private-name"}, "X-Request-Id", "made-1", "Idempotency-Key", "i").want(201)
			hook := s.call("POST", "/webhook/create", map[string]any{"name": "h"}).want(201)
			s.as("").call("POST", strings.TrimPrefix(hook.text("url"), s.URL), map[string]any{"card": "4111"}).want(200)
			s.as("sk_not-a-good-key-at-all-but-long").call("GET", "/cli/region?token=in-the-query", nil).want(401)
			s.stop()
			log := s.Log()
			ingest := hook.text("url")[strings.LastIndex(hook.text("url"), "/")+1:]
			for _, secret := range []string{s.key, made.text("value"), ingest, "very-private-name", "4111", "not-a-good-key", "in-the-query"} {
				if strings.Contains(log, secret) {
					t.Errorf("the log holds %s:\n%s", secret, log)
				}
			}
			lines := slices.DeleteFunc(strings.Split(log, "\n"), func(line string) bool { return !strings.Contains(line, "made-1") })
			if len(lines) != 1 || !strings.Contains(lines[0], "POST /cli/apikey") || !strings.Contains(lines[0], "201") {
				t.Errorf("the request has the lines %q", lines)
			}
			for line := range bytes.Lines([]byte(log)) {
				if format == "json" && !json.Valid(line) {
					t.Errorf("not JSON: %s", line)
				}
			}
		})
	}
}

// TestBehindProxy: with a trusted proxy, the audit log tells the client's address; without one nobody is believed.
func TestBehindProxy(t *testing.T) {
	for args, want := range map[string]string{"": "127.0.0.1", "--trusted-proxies=127.0.0.0/8": "192.0.2.7"} {
		s := begin(t, "sqlite", strings.Fields(args)...)
		s.call("POST", "/cli/project", map[string]any{"name": "p"}, "X-Forwarded-For", "203.0.113.9, 192.0.2.7").want(201)
		var lines []struct {
			RemoteAddr string `json:"remote_addr"`
		}
		s.call("GET", "/audit", nil).want(200).into(&lines)
		if len(lines) != 1 || lines[0].RemoteAddr != want {
			t.Errorf("with %q the audit log says %+v", args, lines)
		}
	}
}

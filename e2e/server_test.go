package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"steward/e2e/installation"
	"steward/internal/waittest"
)

func TestShutdownFinishesRunningRequests(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	address := strings.TrimPrefix(s.URL, "http://")
	conn, err := net.Dial("tcp", address)
	s.Must(err)
	defer conn.Close()
	body := `{"name":"slow but sure"}`
	_, err = fmt.Fprintf(conn, "POST /cli/project HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
		"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n", s.Key, len(body))
	s.Must(err)
	in := bufio.NewReader(conn)
	line, err := in.ReadString('\n') // comes when the handler starts to read the body
	if err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("%q %v", line, err)
	}
	_, err = in.ReadString('\n')
	s.Must(err)
	s.Must(s.Cmd.Process.Signal(syscall.SIGTERM))
	waittest.True(t, "the listener to be closed", func() bool {
		probe, err := net.Dial("tcp", address)
		if err == nil {
			probe.Close()
		}
		return err != nil
	})
	_, err = io.WriteString(conn, body)
	s.Must(err)
	res, err := http.ReadResponse(in, nil)
	s.Must(err)
	if res.StatusCode != 201 {
		t.Fatalf("the running request ended with %s", res.Status)
	}
	s.Must(s.Cmd.Wait())
	s.Start()
	var projects []struct{ Name string }
	s.Call("GET", "/cli/project", nil).Want(200).Decode(&projects)
	if !slices.Contains(projects, struct{ Name string }{"slow but sure"}) {
		t.Errorf("an acknowledged project is missing: %v", projects)
	}
}

func TestOversizeBodiesAreRefused(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	body := `{"name":"` + strings.Repeat("x", 2<<20) + `"}`
	for _, prefix := range []string{"", "/sdk"} {
		path := prefix + "/cli/project"
		s.Call("POST", path, body).Want(413)
		chunked := io.MultiReader(strings.NewReader(body)) // of unknown length
		refused, err := s.Send("POST", path, chunked, "Authorization", "Bearer "+s.Key)
		s.Must(err)
		if refused.Want(413).Code() != "too_large" || refused.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s, chunked: %s", path, refused.Body)
		}
	}
	var projects []any
	s.Call("GET", "/cli/project", nil).Want(200).Decode(&projects)
	if len(projects) != 1 {
		t.Errorf("%d projects, want 1", len(projects))
	}
}

func TestMetricsHaveTheirOwnListener(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite", "--metrics-listen", "127.0.0.1:0")
	anonymous := s.As("")
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/docs"} {
		anonymous.Call("GET", path, nil).Want(200)
	}
	for _, path := range []string{"/metrics", "/debug/pprof/"} {
		anonymous.Call("GET", path, nil).Want(404)
	}
	for path, want := range map[string]string{
		"/metrics":                  `route="GET /readyz",status="200"`,
		"/debug/pprof/heap?debug=1": "heap profile",
	} {
		res, err := installation.Client.Get("http://" + s.Addresses().Listen["metrics"] + path)
		s.Must(err)
		got, err := installation.ReadResponse(t, res)
		s.Must(err)
		if !strings.Contains(string(got.Want(200).Body), want) {
			t.Errorf("%s does not contain %s", path, want)
		}
	}
}

// TestLogHasRequestsWithoutSecrets checks both formats of the log: one line for each request, with
// its id and route.
func TestLogHasRequestsWithoutSecrets(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			s := installation.Start(t, "sqlite", "--log-format", format)
			key := s.Call("POST", "/cli/apikey", object{"name": "very-private-name"},
				"X-Request-Id", "request-1", "Idempotency-Key", "i").Want(201).Text("value")
			h := s.NewHook("h")
			s.Ingest(h, `{"card": "4111"}`)
			s.As("sk_not-a-good-key-at-all-but-long").Call("GET", "/cli/region?token=in-the-query", nil).Want(401)
			s.Stop()
			log := s.Log()
			token := h.Path[strings.LastIndex(h.Path, "/")+1:]
			for _, secret := range []string{s.Key, key, token, "very-private-name", "4111", "not-a-good-key", "in-the-query"} {
				if strings.Contains(log, secret) {
					t.Errorf("the log contains %s:\n%s", secret, log)
				}
			}
			lines := slices.DeleteFunc(strings.Split(log, "\n"), func(line string) bool {
				return !strings.Contains(line, "request-1")
			})
			if len(lines) != 1 || !strings.Contains(lines[0], "POST /cli/apikey") || !strings.Contains(lines[0], "201") {
				t.Errorf("lines of the request: %q", lines)
			}
			for line := range bytes.Lines([]byte(log)) {
				if format == "json" && !json.Valid(line) {
					t.Errorf("not JSON: %s", line)
				}
			}
		})
	}
}

func TestForwardedAddressIsUsedBehindTrustedProxyOnly(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{"": "127.0.0.1", "--trusted-proxies=127.0.0.0/8": "192.0.2.7"} {
		s := installation.Start(t, "sqlite", strings.Fields(args)...)
		s.Call("POST", "/cli/project", object{"name": "p"}, "X-Forwarded-For", "203.0.113.9, 192.0.2.7").Want(201)
		var lines []struct {
			RemoteAddr string `json:"remote_addr"`
		}
		s.Call("GET", "/audit", nil).Want(200).Decode(&lines)
		if len(lines) != 1 || lines[0].RemoteAddr != want {
			t.Errorf("with %q the audit log is %+v", args, lines)
		}
	}
}

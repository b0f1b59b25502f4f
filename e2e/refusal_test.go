package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"steward/e2e/installation"
)

// TestRequestsThatCannotBeParsedGetAProblem sends what net/http refuses before a handler is called, alone
// and after a request on the same connection.
func TestRequestsThatCannotBeParsedGetAProblem(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	address := strings.TrimPrefix(s.URL, "http://")
	for _, before := range []string{"", "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"} {
		for request, want := range map[string]struct {
			status int
			code   string
		}{
			"GET /thread/%zz HTTP/1.1\r\nHost: a\r\n\r\n":                                        {400, "malformed"},
			"GET /sdk/thread/%zz HTTP/1.1\r\nHost: a\r\n\r\n":                                    {400, "malformed"},
			"GET /thread HTTP/1.1\r\n\r\n":                                                       {400, "malformed"},
			"GET /thread HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n\r\n": {431, "headers_too_large"},
			"POST /thread HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n":                   {400, "malformed"},
		} {
			checkRefusal(t, address, before, request, want.status, want.code)
		}
	}
}

func checkRefusal(t *testing.T, address, before, request string, status int, code string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	exchange := func(text string) (*http.Response, string) {
		_, _ = io.WriteString(conn, text) // the server may not read all of it
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%.40q: %v", text, err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("%.40q: %v", text, err)
		}
		return resp, string(body)
	}
	if before != "" {
		exchange(before)
	}
	resp, body := exchange(request)
	contentType := "application/problem+json"
	if strings.Contains(request, "/sdk/") {
		contentType = "application/json"
	}
	var problem struct {
		Code      string
		RequestID string `json:"request_id"`
		Success   *bool
	}
	err = json.Unmarshal([]byte(body), &problem)
	sent := resp.Header.Get("X-Request-Id")
	if err != nil || resp.StatusCode != status || problem.Code != code || resp.Header.Get("Content-Type") != contentType ||
		!strings.HasPrefix(sent, "req_") || problem.Success == nil && problem.RequestID != sent {
		t.Errorf("%.40q: %s", request, fmt.Sprint(resp.Status, resp.Header, body))
	}
}

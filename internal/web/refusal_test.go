package web_test

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"steward/internal/web"
)

// TestRefusalsAreProblems sends a path that net/http cannot parse, after a request that it serves.
func TestRefusalsAreProblems(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.NotFoundHandler(), MaxHeaderBytes: 4 << 10}
	refusals := &web.Refusals{Log: slog.New(slog.DiscardHandler)}
	go func() { _ = srv.Serve(refusals.Attach(srv, l)) }()
	t.Cleanup(func() { _ = srv.Close() })
	for request, want := range map[string]string{
		"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n":                                        "HTTP/1.1 400 Bad Request",
		"POST / HTTP/1.1\r\nHost: a\r\nExpect: luck\r\nContent-Length: 2\r\n\r\n{}":   "HTTP/1.1 417 Expectation Failed",
		"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n\r\n": "HTTP/1.1 431 Request Header",
	} {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"+request)
		all, _ := io.ReadAll(conn)
		_ = conn.Close()
		text := string(all)
		if !strings.Contains(text, "404 page not found") || !strings.Contains(text, want) ||
			!strings.Contains(text, "X-Request-Id: req_") || !strings.Contains(text, `"code":"`) {
			t.Errorf("%.30q: %s", request, text)
		}
	}
}

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/e2e/sink"
)

// headerFields returns n header fields with different names.
func headerFields(n int, value string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%04x:%s\r\n", i, value)
	}
	return b.String()
}

// rawEvent sends an event with these header fields besides Host and Content-Length.
func rawEvent(s *installation.Steward, h installation.Hook, fields string) (status int, body string) {
	s.T.Helper()
	return s.Raw("POST %s HTTP/1.1\r\nHost: example.com\r\nContent-Length: 2\r\n%s\r\nhi", h.Path, fields)
}

func TestEventsWithMoreThan200HeaderFieldsAreRefused(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		k, h := sink.New(t), s.NewHook("orders")
		s.NewDestination(h, k.URL+"/hook")
		status, body := rawEvent(s, h, headerFields(198, "v"))
		if status != 200 {
			t.Fatalf("200 header fields: %d %s", status, body)
		}
		for what, fields := range map[string]string{
			"201 names":         headerFields(201, "v"),
			"201 times one":     strings.Repeat("X-Same: v\r\n", 201),
			"9,608 names, 66 K": headerFields(9608, ""),
		} {
			checkTooManyFields(s, h, what, fields)
		}
		if total := s.Total("/webhook/receipt-list/" + h.ID); total != "1" {
			t.Errorf("%s receipts are stored, want 1", total)
		}
		got := k.Wait("/hook", 1)[0]
		for i := range 198 {
			if name := fmt.Sprintf("%04x", i); got.Header.Get(name) != "v" {
				t.Fatalf("the header field %s was not forwarded: %d were", name, len(got.Header))
			}
		}
	})
}

// checkTooManyFields checks that an event is refused with 431 and a problem document.
func checkTooManyFields(s *installation.Steward, h installation.Hook, what, fields string) {
	s.T.Helper()
	status, body := rawEvent(s, h, fields)
	if status != 431 {
		s.T.Errorf("%s: got %d, want 431: %.200s", what, status, body)
		return
	}
	r := &installation.Response{T: s.T, What: what, Status: status, Body: []byte(body)}
	for _, field := range []string{"type", "title", "detail", "code", "request_id"} {
		if r.Text(field) == "" {
			s.T.Errorf("%s: the problem has no %s: %s", what, field, body)
		}
	}
	if r.Get("status") != 431.0 {
		s.T.Errorf("%s: the problem is %s", what, body)
	}
}

// TestHeaderFieldsCostLittleCPU sends a request of 66 KB with 9,608 header names to a webhook with 50
// destinations, which took 13.7 s of CPU time, and then the largest request that is accepted.
func TestHeaderFieldsCostLittleCPU(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	k, h := sink.New(t), s.NewHook("orders")
	for i := range 50 {
		s.NewDestination(h, fmt.Sprintf("%s/hook-%d", k.URL, i), "max_retries", 0, "timeout_seconds", 60)
	}
	for what, fields := range map[string]string{
		"9,608 header names":               headerFields(9608, ""),
		"198 header fields of 320 B, 66 K": headerFields(198, strings.Repeat("v", 320)),
	} {
		before := s.CPUTime()
		status, _ := rawEvent(s, h, fields)
		waitEnded(s, map[string]installation.Hook{"": h})
		used := s.CPUTime() - before
		t.Logf("%s: %d, %v of CPU time", what, status, used)
		if used > 2*time.Second {
			t.Errorf("%s: %v of CPU time, at most 2 s are allowed", what, used)
		}
	}
	if n := k.Count("/hook-0"); n != 1 {
		t.Errorf("%d events arrived, want 1", n)
	}
}

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
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
func (s *steward) rawEvent(h hook, fields string) (status int, body string) {
	s.t.Helper()
	return s.raw("POST %s HTTP/1.1\r\nHost: example.com\r\nContent-Length: 2\r\n%s\r\nhi", h.path, fields)
}

func TestEventsWithMoreThan200HeaderFieldsAreRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h := newSink(t), s.hook("orders")
		s.destination(h, k.URL+"/hook")
		status, body := s.rawEvent(h, headerFields(198, "v"))
		if status != 200 {
			t.Fatalf("200 header fields: %d %s", status, body)
		}
		for what, fields := range map[string]string{
			"201 names":         headerFields(201, "v"),
			"201 times one":     strings.Repeat("X-Same: v\r\n", 201),
			"9,608 names, 66 K": headerFields(9608, ""),
		} {
			s.checkTooManyFields(h, what, fields)
		}
		if total := s.total("/webhook/receipt-list/" + h.ID); total != "1" {
			t.Errorf("%s receipts are stored, want 1", total)
		}
		got := k.wait("/hook", 1)[0]
		for i := range 198 {
			if name := fmt.Sprintf("%04x", i); got.header.Get(name) != "v" {
				t.Fatalf("the header field %s was not forwarded: %d were", name, len(got.header))
			}
		}
	})
}

// checkTooManyFields checks that an event is refused with 431 and a problem document.
func (s *steward) checkTooManyFields(h hook, what, fields string) {
	s.t.Helper()
	status, body := s.rawEvent(h, fields)
	if status != 431 {
		s.t.Errorf("%s: got %d, want 431: %.200s", what, status, body)
		return
	}
	r := &response{t: s.t, what: what, status: status, body: []byte(body)}
	for _, field := range []string{"type", "title", "detail", "code", "request_id"} {
		if r.text(field) == "" {
			s.t.Errorf("%s: the problem has no %s: %s", what, field, body)
		}
	}
	if r.get("status") != 431.0 {
		s.t.Errorf("%s: the problem is %s", what, body)
	}
}

// TestHeaderFieldsCostLittleCPU sends a request of 66 KB with 9,608 header names to a webhook with 50
// destinations, which took 13.7 s of CPU time, and then the largest request that is accepted.
func TestHeaderFieldsCostLittleCPU(t *testing.T) {
	t.Parallel()
	s := start(t, "sqlite")
	k, h := newSink(t), s.hook("orders")
	for i := range 50 {
		s.destination(h, fmt.Sprintf("%s/hook-%d", k.URL, i), "max_retries", 0, "timeout_seconds", 60)
	}
	for what, fields := range map[string]string{
		"9,608 header names":               headerFields(9608, ""),
		"198 header fields of 320 B, 66 K": headerFields(198, strings.Repeat("v", 320)),
	} {
		before := s.CPUTime()
		status, _ := s.rawEvent(h, fields)
		s.waitEnded(map[string]hook{"": h})
		used := s.CPUTime() - before
		t.Logf("%s: %d, %v of CPU time", what, status, used)
		if used > 2*time.Second {
			t.Errorf("%s: %v of CPU time, at most 2 s are allowed", what, used)
		}
	}
	if n := k.count("/hook-0"); n != 1 {
		t.Errorf("%d events arrived, want 1", n)
	}
}

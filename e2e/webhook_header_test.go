package e2e

import (
	"fmt"
	"strings"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/sink"
)

func TestEventsWithMoreThan200HeaderFieldsAreRefused(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	k, h := sink.New(t), s.NewHook("orders")
	s.NewDestination(h, k.URL+"/hook")
	status, body := s.RawEvent(h, installation.HeaderFields(198, "v"))
	if status != 200 {
		t.Fatalf("200 header fields: %d %s", status, body)
	}
	for what, fields := range map[string]string{
		"201 names":         installation.HeaderFields(201, "v"),
		"201 times one":     strings.Repeat("X-Same: v\r\n", 201),
		"9,608 names, 66 K": installation.HeaderFields(9608, ""),
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
}

// checkTooManyFields checks that an event is refused with 431 and a problem document.
func checkTooManyFields(s *installation.Steward, h installation.Hook, what, fields string) {
	s.T.Helper()
	status, body := s.RawEvent(h, fields)
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

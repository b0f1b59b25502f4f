package e2e

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/internal/waittest"
)

// TestIngestURLIsReadAndRotated also checks that a wrong token and a wrong webhook get the same
// response.
func TestIngestURLIsReadAndRotated(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		h := s.NewHook("orders")
		if !strings.HasPrefix(h.URL, s.URL+"/in/"+h.ID+"/") {
			t.Errorf("the URL is %s", h.URL)
		}
		if got := s.Call("GET", "/webhook/url/"+h.ID, nil).Want(200).Text("url"); got != s.URL+h.Path {
			t.Errorf("the URL is %s, want %s", got, h.Path)
		}
		if got := s.Call("GET", "/webhook/get/"+h.ID, nil).Want(200); got.Get("url") != nil {
			t.Errorf("get returns the URL: %s", got.Body)
		}
		if got := s.Call("GET", "/webhook/list", nil).Want(200); strings.Contains(string(got.Body), "/in/") {
			t.Errorf("the list has the URL: %s", got.Body)
		}
		if got := s.Call("PUT", "/webhook/update/"+h.ID, object{"name": "renamed"}).Want(200); got.Get("url") != nil {
			t.Errorf("update returns the URL: %s", got.Body)
		}
		if total := s.Total("/webhook/list?limit=0"); total != "1" {
			t.Errorf("%s webhooks, want 1", total)
		}
		s.Ingest(h, "1")
		wrong := []string{
			h.Path[:len(h.Path)-1] + "_", h.Path[:len(h.Path)-1], h.Path + "x",
			"/in/wh_01jcq3v5w8z9d6y4k2m7n0p1rt/" + h.Path[len(h.Path)-32:], "/in/nothing/x",
		}
		first := checkNotFound(s, wrong[0])
		for _, path := range wrong[1:] {
			if got := checkNotFound(s, path); got != first {
				t.Errorf("%s differs from a wrong token: %s, %s", path, got, first)
			}
		}
		rotated := s.Call("POST", "/webhook/rotate-url/"+h.ID, nil).Want(200)
		checkNotFound(s, h.Path)
		u, err := url.Parse(rotated.Text("url"))
		s.Must(err)
		s.Ingest(installation.Hook{Path: u.Path}, "2")
		if total := s.Total("/webhook/receipt-list/" + h.ID); total != "2" {
			t.Errorf("%s receipts, want 2", total)
		}
	})
}

// TestRevokedIngestURLIsRefusedByOtherReplica revokes a URL that the other replica has in its cache.
func TestRevokedIngestURLIsRefusedByOtherReplica(t *testing.T) {
	t.Parallel()
	one := installation.Start(t, "postgres")
	two := one.Replica()
	for what, revoke := range map[string]func(h installation.Hook){
		"rotate": func(h installation.Hook) { one.Call("POST", "/webhook/rotate-url/"+h.ID, nil).Want(200) },
		"delete": func(h installation.Hook) { one.Call("DELETE", "/webhook/delete/"+h.ID, nil).Want(204) },
	} {
		h := one.NewHook("orders")
		two.Ingest(h, "x")
		revoke(h)
		checkNotFound(one, h.Path)
		waittest.Within(t, time.Second, "the other replica to refuse the URL after "+what, func() bool {
			r, err := two.Send("POST", h.Path, nil)
			two.Must(err)
			return r.Status == 404
		})
	}
}

// checkNotFound sends an event to a path that does not exist, and returns the response without its
// request id.
func checkNotFound(s *installation.Steward, path string) string {
	s.T.Helper()
	r, err := s.Send("POST", path, strings.NewReader("x"))
	s.Must(err)
	var problem object
	r.Want(404).Decode(&problem)
	delete(problem, "request_id")
	text, err := json.Marshal(problem)
	s.Must(err)
	return string(text)
}

package e2e

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestIngestURLIsShownOnceAndRotated also checks that a wrong token and a wrong webhook get the same
// response.
func TestIngestURLIsShownOnceAndRotated(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		h := s.hook("orders")
		if !strings.HasPrefix(h.URL, s.URL+"/in/"+h.ID+"/") {
			t.Errorf("the URL is %s", h.URL)
		}
		if got := s.call("GET", "/webhook/get/"+h.ID, nil).want(200); got.get("url") != nil {
			t.Errorf("get returns the URL: %s", got.body)
		}
		if got := s.call("GET", "/webhook/list", nil).want(200); strings.Contains(string(got.body), "/in/") {
			t.Errorf("the list has the URL: %s", got.body)
		}
		if got := s.call("PUT", "/webhook/update/"+h.ID, object{"name": "renamed"}).want(200); got.get("url") != nil {
			t.Errorf("update returns the URL: %s", got.body)
		}
		if total := s.total("/webhook/list?limit=0"); total != "1" {
			t.Errorf("%s webhooks, want 1", total)
		}
		s.ingest(h, "1")
		wrong := []string{
			h.path[:len(h.path)-1] + "_", h.path[:len(h.path)-1], h.path + "x",
			"/in/wh_01jcq3v5w8z9d6y4k2m7n0p1rt/" + h.path[len(h.path)-32:], "/in/nothing/x", "/in/%ff/%fe",
		}
		first := s.checkNotFound(wrong[0])
		for _, path := range wrong[1:] {
			if got := s.checkNotFound(path); got != first {
				t.Errorf("%s differs from a wrong token: %s, %s", path, got, first)
			}
		}
		rotated := s.call("POST", "/webhook/rotate-url/"+h.ID, nil).want(200)
		s.checkNotFound(h.path)
		u, err := url.Parse(rotated.text("url"))
		s.must(err)
		s.ingest(hook{path: u.Path}, "2")
		if total := s.total("/webhook/receipt-list/" + h.ID); total != "2" {
			t.Errorf("%s receipts, want 2", total)
		}
	})
}

// TestRevokedIngestURLIsRefusedByOtherReplica revokes a URL that the other replica has in its cache.
func TestRevokedIngestURLIsRefusedByOtherReplica(t *testing.T) {
	t.Parallel()
	one := start(t, "postgres")
	two := one.replica()
	for what, revoke := range map[string]func(h hook){
		"rotate": func(h hook) { one.call("POST", "/webhook/rotate-url/"+h.ID, nil).want(200) },
		"delete": func(h hook) { one.call("DELETE", "/webhook/delete/"+h.ID, nil).want(204) },
	} {
		h := one.hook("orders")
		two.ingest(h, "x")
		revoke(h)
		one.checkNotFound(h.path)
		within(t, time.Second, "the other replica to refuse the URL after "+what, func() bool {
			r, err := two.send("POST", h.path, nil)
			two.must(err)
			return r.status == 404
		})
	}
}

// checkNotFound sends an event to a path that does not exist, and returns the response without its
// request id.
func (s *steward) checkNotFound(path string) string {
	s.t.Helper()
	r, err := s.send("POST", path, strings.NewReader("x"))
	s.must(err)
	var problem object
	r.want(404).decode(&problem)
	delete(problem, "request_id")
	text, err := json.Marshal(problem)
	s.must(err)
	return string(text)
}

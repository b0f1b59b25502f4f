package e2e

import (
	"strings"
	"testing"
	"time"
)

// newSession returns the request that starts a session.
func newSession(s *steward, id, thread, project string) object {
	return object{
		"id": id, "threadId": thread, "orgId": s.orgID, "projectId": project, "routeId": "r",
		"environment": "production", "devmode": false, "url": "/x?y=1", "method": "POST", "trigger": "api",
		"metadata": object{"k": 1}, "timestamp": "2026-01-02T03:04:05+01:00",
	}
}

func TestSessionStartsAndCompletes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		made := s.call("POST", "/session", newSession(s, "s1", "t1", "p1")).want(201)
		if made.text("startedAt") != "2026-01-02T02:04:05.000Z" || made.get("pending") != true || made.get("statusCode") != nil {
			t.Errorf("started %s", made.body)
		}
		again := s.call("POST", "/session", newSession(s, "s1", "t9", "p1")).want(201)
		if again.text("threadId") != "t1" {
			t.Errorf("a repeated start changed it: %s", again.body)
		}
		end := object{"id": "s1", "threadId": "t1", "statusCode": 200, "agentIds": []string{"a"}, "userData": `{"u":1}`}
		done := s.call("PUT", "/session", end).want(200)
		end["statusCode"] = 500
		if twice := s.call("PUT", "/session", end).want(200); string(twice.body) != string(done.body) {
			t.Errorf("the second completion changed %s to %s", done.body, twice.body)
		}
		if done.get("pending") != false || done.get("statusCode") != 200.0 || done.text("userData") != `{"u":1}` ||
			done.get("metadata.k") != 1.0 {
			t.Errorf("completed %s", done.body)
		}
		early := object{"id": "s2", "threadId": "t1", "statusCode": 503, "error": "boom", "timestamp": time.Now().Add(time.Hour)}
		soon := time.Now().Add(10 * time.Minute).UTC().Format(time.RFC3339)
		if got := s.call("PUT", "/session", early).want(200); got.text("completedAt") > soon {
			t.Errorf("a future timestamp was kept: %s", got.body)
		}
		later := s.call("POST", "/session", newSession(s, "s2", "t1", "p2")).want(201)
		if later.text("projectId") != "p2" || later.get("statusCode") != 503.0 || later.text("error") != "boom" {
			t.Errorf("a start after the completion: %s", later.body)
		}
		foreign := newSession(s, "s3", "t1", "p1")
		foreign["orgId"] = "org_other"
		s.call("POST", "/session", foreign).want(403)
		s.call("POST", "/session", newSession(s, "a b", "t1", "p1")).want(422)
		wrong := newSession(s, "s3", "t1", "p1")
		wrong["timestamp"] = "tomorrow"
		refusal := string(s.call("POST", "/session", wrong).want(422).body)
		if !strings.Contains(refusal, "body.timestamp") || strings.Contains(refusal, "tomorrow") {
			t.Errorf("refused with %s", refusal)
		}
		s.call("PUT", "/session", object{"id": "s1"}).want(422)

		for query, want := range map[string]string{
			"": "s2 s1", "?projectId=p1": "s1", "?threadId=t1&limit=1": "s2", "?threadId=t9": "", "?orgId=org_other": "",
		} {
			if got := s.call("GET", "/session"+query, nil).ids(); got != want {
				t.Errorf("%s: got %s, want %s", query, got, want)
			}
		}
		two := s.keyOf("p2")
		two.call("GET", "/session/s1", nil).want(404)
		two.call("PUT", "/session", object{"id": "s1", "threadId": "t1", "statusCode": 1}).want(404)
		two.call("POST", "/session", newSession(s, "s9", "t1", "p1")).want(403)
		if got := two.call("GET", "/session", nil).ids(); got != "s2" {
			t.Errorf("a key of p2 lists %s", got)
		}
		s.kill()
		s.start()
		if got := s.call("GET", "/session/s1", nil).want(200); string(got.body) != string(done.body) {
			t.Errorf("after a restart: %s", got.body)
		}
		for _, path := range []string{"/sdk/session/2025-03-17", "/sdk/session/2027-01-01"} { // versioned paths of SDKs
			s.call("PUT", path, end).want(200)
		}
		s.call("PUT", "/sdk/session/x", end).want(405)
		s.call("PUT", "/session/2025-03-17", end).want(405)
		s.call("GET", "/sdk/session/2025-03-17", nil).want(404)
		if got := s.call("GET", "/sdk/session/s1", nil).want(200); got.get("data.session.id") != "s1" {
			t.Errorf("on the SDK face: %s", got.body)
		}
	})
}

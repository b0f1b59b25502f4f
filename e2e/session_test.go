package e2e

import (
	"strings"
	"testing"
	"time"

	"steward/e2e/installation"
)

func TestSessionStartsAndCompletes(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		made := s.Call("POST", "/session", installation.SessionRequest(s, "s1", "t1", "p1")).Want(201)
		if made.Text("startedAt") != "2026-01-02T02:04:05.000Z" || made.Get("pending") != true || made.Get("statusCode") != nil {
			t.Errorf("started %s", made.Body)
		}
		again := s.Call("POST", "/session", installation.SessionRequest(s, "s1", "t9", "p1")).Want(201)
		if again.Text("threadId") != "t1" {
			t.Errorf("a repeated start changed it: %s", again.Body)
		}
		end := object{"id": "s1", "threadId": "t1", "statusCode": 200, "agentIds": []string{"a"}, "userData": `{"u":1}`}
		done := s.Call("PUT", "/session", end).Want(200)
		end["statusCode"] = 500
		if twice := s.Call("PUT", "/session", end).Want(200); string(twice.Body) != string(done.Body) {
			t.Errorf("the second completion changed %s to %s", done.Body, twice.Body)
		}
		if done.Get("pending") != false || done.Get("statusCode") != 200.0 || done.Text("userData") != `{"u":1}` ||
			done.Get("metadata.k") != 1.0 {
			t.Errorf("completed %s", done.Body)
		}
		early := object{"id": "s2", "threadId": "t1", "statusCode": 503, "error": "boom", "timestamp": time.Now().Add(time.Hour)}
		soon := time.Now().Add(10 * time.Minute).UTC().Format(time.RFC3339)
		if got := s.Call("PUT", "/session", early).Want(200); got.Text("completedAt") > soon {
			t.Errorf("a future timestamp was kept: %s", got.Body)
		}
		later := s.Call("POST", "/session", installation.SessionRequest(s, "s2", "t1", "p2")).Want(201)
		if later.Text("projectId") != "p2" || later.Get("statusCode") != 503.0 || later.Text("error") != "boom" {
			t.Errorf("a start after the completion: %s", later.Body)
		}
		foreign := installation.SessionRequest(s, "s3", "t1", "p1")
		foreign["orgId"] = "org_other"
		s.Call("POST", "/session", foreign).Want(403)
		s.Call("POST", "/session", installation.SessionRequest(s, "a b", "t1", "p1")).Want(422)
		wrong := installation.SessionRequest(s, "s3", "t1", "p1")
		wrong["timestamp"] = "tomorrow"
		refusal := string(s.Call("POST", "/session", wrong).Want(422).Body)
		if !strings.Contains(refusal, "body.timestamp") || strings.Contains(refusal, "tomorrow") {
			t.Errorf("refused with %s", refusal)
		}
		s.Call("PUT", "/session", object{"id": "s1"}).Want(422)

		for query, want := range map[string]string{
			"": "s2 s1", "?projectId=p1": "s1", "?threadId=t1&limit=1": "s2", "?threadId=t9": "", "?orgId=org_other": "",
		} {
			if got := s.Call("GET", "/session"+query, nil).IDs(); got != want {
				t.Errorf("%s: got %s, want %s", query, got, want)
			}
		}
		two := s.KeyOf("p2")
		two.Call("GET", "/session/s1", nil).Want(404)
		two.Call("PUT", "/session", object{"id": "s1", "threadId": "t1", "statusCode": 1}).Want(404)
		two.Call("POST", "/session", installation.SessionRequest(s, "s9", "t1", "p1")).Want(403)
		if got := two.Call("GET", "/session", nil).IDs(); got != "s2" {
			t.Errorf("a key of p2 lists %s", got)
		}
		s.Kill()
		s.Start()
		if got := s.Call("GET", "/session/s1", nil).Want(200); string(got.Body) != string(done.Body) {
			t.Errorf("after a restart: %s", got.Body)
		}
		for _, path := range []string{"/sdk/session/2025-03-17", "/sdk/session/2027-01-01"} { // versioned paths of SDKs
			s.Call("PUT", path, end).Want(200)
		}
		s.Call("PUT", "/sdk/session/x", end).Want(405)
		s.Call("PUT", "/session/2025-03-17", end).Want(405)
		s.Call("GET", "/sdk/session/2025-03-17", nil).Want(404)
		if got := s.Call("GET", "/sdk/session/s1", nil).Want(200); got.Get("data.session.id") != "s1" {
			t.Errorf("on the SDK face: %s", got.Body)
		}
	})
}

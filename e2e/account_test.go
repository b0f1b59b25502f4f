package e2e

import (
	"fmt"
	"strings"
	"testing"
)

type member struct {
	ID        string
	FirstName *string `json:"first_name"`
	Email     *string
	Role      string
	Link      string
	Pending   bool
}

func TestMembersAreInvitedChangedAndRemoved(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		var m member
		invitation := object{"email": "Ada@Example.com", "first_name": "Ada", "role": "admin"}
		s.call("POST", "/oidc/org/members", invitation).want(201).decode(&m)
		if *m.Email != "ada@example.com" || m.Role != "admin" || !strings.HasPrefix(m.Link, s.URL+"/invite/") {
			t.Fatalf("got %+v", m)
		}
		s.call("POST", "/oidc/org/members", object{"email": "ada@example.com", "role": "viewer"}).want(409)
		s.call("POST", "/oidc/org/members", object{"email": "not an address", "role": "king"}).want(422)
		changed := s.call("PUT", "/oidc/org/members/"+m.ID, object{"role": "viewer", "first_name": nil}).want(200)
		if changed.text("role") != "viewer" || changed.get("first_name") != nil || changed.text("email") != "ada@example.com" {
			t.Fatalf("got %s", changed.body)
		}
		s.call("PUT", "/oidc/org/members/"+m.ID, object{"role": "admin"}, "If-Match", `"1"`).want(412)
		s.call("DELETE", "/oidc/org/members/"+m.ID, nil).want(204)
		s.call("DELETE", "/oidc/org/members/"+m.ID, nil).want(404)
	})
}

func TestLastOwnerCannotBeDemotedOrRemoved(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		me := s.call("GET", "/cli/auth/user", nil).text("id")
		s.call("PUT", "/oidc/org/members/"+me, object{"role": "admin"}).want(409)
		s.call("DELETE", "/oidc/org/members/"+me, nil).want(409)
	})
}

func TestDeletedProjectEndsItsKeys(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		project := s.call("POST", "/cli/project", object{"name": "short"}).want(201).text("id")
		key := s.call("POST", "/cli/apikey", object{"name": "k", "projectId": project}).want(201).text("value")
		s.as(key).call("GET", "/cli/project", nil).want(200)
		s.call("DELETE", "/cli/project/"+project, nil).want(204)
		s.as(key).call("GET", "/cli/project", nil).want(401)
		s.call("DELETE", "/cli/project/"+project, nil).want(404)
	})
}

// TestSavesOfRuntimesAreNotAudited saves what a runtime saves for every request that it serves. The log
// has what it created once, and what was deleted.
func TestSavesOfRuntimesAreNotAudited(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		runtime := s.keyOf("p1")
		for i := range 3 {
			runtime.call("PUT", "/thread/t1", object{"user_data": fmt.Sprint(i)}).want(200)
		}
		runtime.socket().do("save", object{"thread_id": "t1", "user_data": "{}"})
		runtime.call("POST", "/session", newSession(s, "s1", "t1", "p1")).want(201)
		run := evalRun{ID: "r1", SessionID: "s1", EvalID: "e1", ProjectID: "p1"}
		runtime.call("POST", "/evalrun", run.body(s.orgID, 0)).want(201)
		runtime.call("DELETE", "/thread/t1", nil).want(204)
		var lines []struct{ Action string }
		s.call("GET", "/audit", nil).want(200).decode(&lines)
		if len(lines) != 3 || lines[0].Action != "thread.delete" || lines[1].Action != "apikey.create" || lines[2].Action != "project.create" {
			t.Errorf("the audit log has %+v", lines)
		}
	})
}

func TestEachChangeIsAudited(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		id := s.call("POST", "/cli/apikey", object{"name": "k"}, "X-Request-Id", "my-request-1").want(201).text("id")
		s.call("DELETE", "/cli/apikey/"+id, nil).want(204)
		var lines []struct {
			Action, Target string
			RequestID      string `json:"request_id"`
		}
		s.call("GET", "/audit?limit=2", nil).want(200).decode(&lines)
		if len(lines) != 2 || lines[0].Action != "apikey.delete" || lines[1].Action != "apikey.create" ||
			lines[1].Target != id || lines[1].RequestID != "my-request-1" {
			t.Fatalf("got %+v", lines)
		}
	})
}

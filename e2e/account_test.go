package e2e

import (
	"fmt"
	"strings"
	"testing"

	"steward/e2e/installation"
)

func TestMembersAreInvitedChangedAndRemoved(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		var m installation.Member
		invitation := object{"email": "Ada@Example.com", "first_name": "Ada", "role": "admin"}
		s.Call("POST", "/oidc/org/members", invitation).Want(201).Decode(&m)
		if *m.Email != "ada@example.com" || m.Role != "admin" || !strings.HasPrefix(m.Link, s.URL+"/invite/") {
			t.Fatalf("got %+v", m)
		}
		s.Call("POST", "/oidc/org/members", object{"email": "ada@example.com", "role": "viewer"}).Want(409)
		s.Call("POST", "/oidc/org/members", object{"email": "not an address", "role": "king"}).Want(422)
		changed := s.Call("PUT", "/oidc/org/members/"+m.ID, object{"role": "viewer", "first_name": nil}).Want(200)
		if changed.Text("role") != "viewer" || changed.Get("first_name") != nil || changed.Text("email") != "ada@example.com" {
			t.Fatalf("got %s", changed.Body)
		}
		s.Call("PUT", "/oidc/org/members/"+m.ID, object{"role": "admin"}, "If-Match", `"1"`).Want(412)
		s.Call("DELETE", "/oidc/org/members/"+m.ID, nil).Want(204)
		s.Call("DELETE", "/oidc/org/members/"+m.ID, nil).Want(404)
	})
}

func TestLastOwnerCannotBeDemotedOrRemoved(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		me := s.Call("GET", "/cli/auth/user", nil).Text("id")
		s.Call("PUT", "/oidc/org/members/"+me, object{"role": "admin"}).Want(409)
		s.Call("DELETE", "/oidc/org/members/"+me, nil).Want(409)
	})
}

func TestDeletedProjectEndsItsKeys(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		project := s.Call("POST", "/cli/project", object{"name": "short"}).Want(201).Text("id")
		key := s.Call("POST", "/cli/apikey", object{"name": "k", "projectId": project}).Want(201).Text("value")
		s.As(key).Call("GET", "/cli/project", nil).Want(200)
		s.Call("DELETE", "/cli/project/"+project, nil).Want(204)
		s.As(key).Call("GET", "/cli/project", nil).Want(401)
		s.Call("DELETE", "/cli/project/"+project, nil).Want(404)
	})
}

// TestSavesOfRuntimesAreNotAudited saves what a runtime saves for every request that it serves. The log
// has what it created once, and what was deleted.
func TestSavesOfRuntimesAreNotAudited(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		runtime := s.KeyOf("p1")
		for i := range 3 {
			runtime.Call("PUT", "/thread/t1", object{"user_data": fmt.Sprint(i)}).Want(200)
		}
		runtime.OpenSocket().Do("save", object{"thread_id": "t1", "user_data": "{}"})
		runtime.Call("POST", "/session", installation.SessionRequest(s, "s1", "t1", "p1")).Want(201)
		run := installation.EvalRun{ID: "r1", SessionID: "s1", EvalID: "e1", ProjectID: "p1"}
		runtime.Call("POST", "/evalrun", run.Body(s.OrgID, 0)).Want(201)
		runtime.Call("DELETE", "/thread/t1", nil).Want(204)
		var lines []struct{ Action string }
		s.Call("GET", "/audit", nil).Want(200).Decode(&lines)
		if len(lines) != 3 || lines[0].Action != "thread.delete" || lines[1].Action != "apikey.create" || lines[2].Action != "project.create" {
			t.Errorf("the audit log has %+v", lines)
		}
	})
}

func TestEachChangeIsAudited(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		id := s.Call("POST", "/cli/apikey", object{"name": "k"}, "X-Request-Id", "my-request-1").Want(201).Text("id")
		s.Call("DELETE", "/cli/apikey/"+id, nil).Want(204)
		var lines []struct {
			Action, Target string
			RequestID      string `json:"request_id"`
		}
		s.Call("GET", "/audit?limit=2", nil).Want(200).Decode(&lines)
		if len(lines) != 2 || lines[0].Action != "apikey.delete" || lines[1].Action != "apikey.create" ||
			lines[1].Target != id || lines[1].RequestID != "my-request-1" {
			t.Fatalf("got %+v", lines)
		}
	})
}

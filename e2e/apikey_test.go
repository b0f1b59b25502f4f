package e2e

import (
	"testing"
	"time"
)

func TestDeletedKeyIsRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		made := s.call("POST", "/cli/apikey", object{"name": "ci", "expiresAt": nil, "projectId": "prj_new"}).want(201)
		id := made.text("id")
		confined := s.as(made.text("value"))
		confined.call("GET", "/cli/project", nil).want(200)
		confined.call("GET", "/cli/apikey", nil).want(403)
		got := s.call("GET", "/cli/apikey/"+id, nil).want(200)
		if got.text("type") != "project" || got.text("project.id") != "prj_new" || got.get("expiresAt") != nil {
			t.Fatalf("got %s", got.body)
		}
		s.call("DELETE", "/cli/apikey/"+id, nil, "If-Match", `"77"`).want(412)
		gone := s.call("DELETE", "/cli/apikey/"+id, nil, "If-Match", got.header.Get("ETag")).want(204)
		if len(gone.body) != 0 {
			t.Fatalf("204 with a body: %s", gone.body)
		}
		confined.call("GET", "/cli/project", nil).want(401)
		s.call("GET", "/cli/apikey/"+id, nil).want(404)
	})
}

// TestDeletedKeyIsRefusedByOtherReplica deletes a key that the other replica has in its cache.
func TestDeletedKeyIsRefusedByOtherReplica(t *testing.T) {
	t.Parallel()
	one := start(t, "postgres")
	two := one.replica()
	made := one.call("POST", "/cli/apikey", object{"name": "short-lived"}).want(201)
	cached := two.as(made.text("value"))
	cached.call("GET", "/cli/region", nil).want(200)
	one.call("DELETE", "/cli/apikey/"+made.text("id"), nil).want(204)
	within(t, time.Second, "the other replica to refuse the key", func() bool {
		return cached.call("GET", "/cli/region", nil).status == 401
	})
}

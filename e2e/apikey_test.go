package e2e

import (
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/internal/waittest"
)

func TestDeletedKeyIsRefused(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		made := s.Call("POST", "/cli/apikey", object{"name": "ci", "expiresAt": nil, "projectId": "prj_new"}).Want(201)
		id := made.Text("id")
		confined := s.As(made.Text("value"))
		confined.Call("GET", "/cli/project", nil).Want(200)
		confined.Call("GET", "/cli/apikey", nil).Want(403)
		got := s.Call("GET", "/cli/apikey/"+id, nil).Want(200)
		if got.Text("type") != "project" || got.Text("project.id") != "prj_new" || got.Get("expiresAt") != nil {
			t.Fatalf("got %s", got.Body)
		}
		s.Call("DELETE", "/cli/apikey/"+id, nil, "If-Match", `"77"`).Want(412)
		gone := s.Call("DELETE", "/cli/apikey/"+id, nil, "If-Match", got.Header.Get("ETag")).Want(204)
		if len(gone.Body) != 0 {
			t.Fatalf("204 with a body: %s", gone.Body)
		}
		confined.Call("GET", "/cli/project", nil).Want(401)
		s.Call("GET", "/cli/apikey/"+id, nil).Want(404)
	})
}

// TestDeletedKeyIsRefusedByOtherReplica deletes a key that the other replica has in its cache.
func TestDeletedKeyIsRefusedByOtherReplica(t *testing.T) {
	t.Parallel()
	one := installation.Start(t, "postgres")
	two := one.Replica()
	made := one.Call("POST", "/cli/apikey", object{"name": "short-lived"}).Want(201)
	cached := two.As(made.Text("value"))
	cached.Call("GET", "/cli/region", nil).Want(200)
	one.Call("DELETE", "/cli/apikey/"+made.Text("id"), nil).Want(204)
	waittest.Within(t, time.Second, "the other replica to refuse the key", func() bool {
		return cached.Call("GET", "/cli/region", nil).Status == 401
	})
}

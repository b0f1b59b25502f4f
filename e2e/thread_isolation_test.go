package e2e

import (
	"context"
	"net/url"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/internal/db"
	"steward/internal/waittest"
)

// TestRuntimeRecordsAreIsolated checks that threads, sessions, evals and runs of an organization or a
// project do not exist for keys of another, on any route, on both faces and over the socket.
func TestRuntimeRecordsAreIsolated(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		stranger := s.SecondOrganization()
		owner := s.KeyOf("p1")
		owner.Call("PUT", "/thread/t", object{"user_data": `{"of":"p1"}`, "metadata": object{"k": "v"}}).Want(200)
		owner.Call("PUT", "/thread/gone", object{"metadata": object{"k": "v"}}).Want(200)
		owner.Call("DELETE", "/thread/gone", nil).Want(204)
		owner.Call("POST", "/session", installation.SessionRequest(s, "s1", "t", "p1")).Want(201)
		owner.Call("PUT", "/cli/eval/e1", object{"name": "e", "agentIdentifier": "a", "projectId": "p1"}).Want(200)
		run := installation.EvalRun{ID: "r1", SessionID: "s1", EvalID: "e1", ProjectID: "p1"}
		owner.Call("POST", "/evalrun", run.Body(s.OrgID, 0)).Want(201)
		records := []string{"/thread/t", "/session/s1", "/cli/eval/e1", "/cli/eval-run/r1"}
		before := map[string]string{}
		for _, path := range records {
			before[path] = string(s.Call("GET", path, nil).Want(200).Body)
		}
		for _, other := range []*installation.Steward{stranger, s.KeyOf("p2")} {
			checkReadsNothing(other, s.OrgID, records)
		}
		checkWritesNothing(stranger, s)
		for _, path := range records {
			if got := string(s.Call("GET", path, nil).Want(200).Body); got != before[path] {
				t.Errorf("%s was %s and is %s", path, before[path], got)
			}
		}
	})
}

func TestDeletedThreadIsRemovedAfterRetention(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			s := installation.Start(t, name, "--thread-retention", "1s")
			s.Call("PUT", "/thread/t", object{"project_id": "p", "user_data": "{}", "metadata": object{"k": "v"}}).Want(200)
			s.Call("PUT", "/thread/stays", object{"project_id": "p", "metadata": object{"k": "v"}}).Want(200)
			s.Call("DELETE", "/thread/t", nil).Want(204)
			s.Call("PUT", "/thread/t", object{"project_id": "p"}).Want(409)
			over := time.Now().Add(time.Second)
			waittest.True(t, "the end of the retention", func() bool { return time.Now().After(over) })
			s.Offline(func(ctx context.Context, d *db.DB) { // as if the job had run long ago
				s.Must(d.Write(ctx, func(tx *db.Tx) error {
					_, err := tx.Exec(`DELETE FROM leases WHERE name = 'threads'`)
					return err
				}))
			})
			waittest.Until(t, "deleted threads to be removed", func() (string, bool) {
				listed := s.Call("GET", "/thread?deleted=true", nil).IDs()
				return listed, listed == ""
			})
			if got := s.Call("GET", "/thread?projectId=p&metadata="+url.QueryEscape(`{"k":"v"}`), nil).IDs(); got != "stays" {
				t.Errorf("got %s, want stays", got)
			}
			s.Call("PUT", "/thread/t", object{"project_id": "p"}).Want(200)
		})
	}
}

// checkReadsNothing tries every route that reads, or that takes only an id.
func checkReadsNothing(other *installation.Steward, orgID string, records []string) {
	for _, face := range []string{"", "/sdk"} {
		for _, path := range records {
			other.Call("GET", face+path, nil).Want(404)
		}
		other.Call("DELETE", face+"/thread/t", nil).Want(404)
		other.Call("DELETE", face+"/thread/gone", nil).Want(404)
		other.Call("PUT", face+"/evalrun", object{"id": "r1"}).Want(404)
	}
	for _, list := range []string{
		"/thread", "/thread?projectId=p1", "/thread?orgId=" + orgID + "&projectId=p1",
		"/thread?metadata=" + url.QueryEscape(`{"k":"v"}`),
		"/thread?sort=updated&projectId=p1&metadata=" + url.QueryEscape(`{"k":"v"}`),
		"/thread?deleted=true", "/thread?deleted=true&projectId=p1",
		"/session", "/session?projectId=p1", "/session?threadId=t", "/session?threadId=t&projectId=p1",
		"/cli/eval", "/cli/eval?projectId=p1", "/cli/eval?agentId=a",
		"/cli/eval-run", "/cli/eval-run?projectId=p1", "/cli/eval-run?agentId=a", "/cli/eval-run?evalId=e1",
		"/cli/eval-run?sessionId=s1", "/cli/eval-run?evalId=e1&sessionId=s1&projectId=p1",
	} {
		if got := other.Call("GET", list, nil); got.IDs() != "" || got.Header.Get("X-Total-Count") != "0" {
			other.T.Errorf("%s: %s, total %s", list, got.Body, got.Header.Get("X-Total-Count"))
		}
	}
	socket := other.OpenSocket()
	if data := socket.Do("restore", object{"thread_id": "t"}); data != nil {
		other.T.Errorf("restored %s", *data)
	}
	socket.Do("delete", object{"thread_id": "t"}) // succeeds and deletes nothing
}

// checkWritesNothing writes with a key of another organization: records that name the organization of
// s are refused, the same ids create records of its own.
func checkWritesNothing(stranger, s *installation.Steward) {
	run := installation.EvalRun{ID: "r2", SessionID: "s1", EvalID: "e1", ProjectID: "p1"}.Body(s.OrgID, 0)
	eval := object{"name": "mine", "agentIdentifier": "a", "projectId": "p1", "orgId": s.OrgID}
	stranger.Call("POST", "/session", installation.SessionRequest(s, "s2", "t", "p1")).Want(403)
	stranger.Call("POST", "/evalrun", run).Want(403)
	stranger.Call("PUT", "/cli/eval/e1", eval).Want(403)
	eval["id"] = "e1"
	stranger.Call("POST", "/cli/devmode/eval", object{"create": []object{eval}}).Want(403)
	stranger.Call("GET", "/sdk/thread", nil, "x-agentuity-orgid", s.OrgID).Want(403)
	stranger.Call("PUT", "/thread/t", object{"project_id": "p1", "user_data": `{"of":"a stranger"}`}).Want(200)
	stranger.Call("PUT", "/session", object{"id": "s1", "threadId": "t", "statusCode": 500}).Want(200)
	stranger.Call("POST", "/cli/devmode/eval", object{"delete": []string{"e1"}}).Want(200)
	stranger.Call("DELETE", "/cli/project/p1", nil).Want(204)
}

package e2e

import (
	"context"
	"net/url"
	"testing"
	"time"

	"steward/e2e/process"
	"steward/internal/db"
	"steward/internal/waittest"
)

// TestRuntimeRecordsAreIsolated checks that threads, sessions, evals and runs of an organization or a
// project do not exist for keys of another, on any route, on both faces and over the socket.
func TestRuntimeRecordsAreIsolated(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		stranger := s.secondOrganization()
		owner := s.keyOf("p1")
		owner.call("PUT", "/thread/t", object{"user_data": `{"of":"p1"}`, "metadata": object{"k": "v"}}).want(200)
		owner.call("PUT", "/thread/gone", object{"metadata": object{"k": "v"}}).want(200)
		owner.call("DELETE", "/thread/gone", nil).want(204)
		owner.call("POST", "/session", newSession(s, "s1", "t", "p1")).want(201)
		owner.call("PUT", "/cli/eval/e1", object{"name": "e", "agentIdentifier": "a", "projectId": "p1"}).want(200)
		run := evalRun{ID: "r1", SessionID: "s1", EvalID: "e1", ProjectID: "p1"}
		owner.call("POST", "/evalrun", run.body(s.orgID, 0)).want(201)
		records := []string{"/thread/t", "/session/s1", "/cli/eval/e1", "/cli/eval-run/r1"}
		before := map[string]string{}
		for _, path := range records {
			before[path] = string(s.call("GET", path, nil).want(200).body)
		}
		for _, other := range []*steward{stranger, s.keyOf("p2")} {
			checkReadsNothing(other, s.orgID, records)
		}
		checkWritesNothing(stranger, s)
		for _, path := range records {
			if got := string(s.call("GET", path, nil).want(200).body); got != before[path] {
				t.Errorf("%s was %s and is %s", path, before[path], got)
			}
		}
	})
}

func TestDeletedThreadIsRemovedAfterRetention(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			s := start(t, name, "--thread-retention", "1s")
			s.call("PUT", "/thread/t", object{"project_id": "p", "user_data": "{}", "metadata": object{"k": "v"}}).want(200)
			s.call("PUT", "/thread/stays", object{"project_id": "p", "metadata": object{"k": "v"}}).want(200)
			s.call("DELETE", "/thread/t", nil).want(204)
			s.call("PUT", "/thread/t", object{"project_id": "p"}).want(409)
			over := time.Now().Add(time.Second)
			waittest.True(t, "the end of the retention", func() bool { return time.Now().After(over) })
			s.offline(func(ctx context.Context, d *db.DB) { // as if the job had run long ago
				s.must(d.Write(ctx, func(tx *db.Tx) error {
					_, err := tx.Exec(`DELETE FROM leases WHERE name = 'threads'`)
					return err
				}))
			})
			waittest.Until(t, "deleted threads to be removed", func() (string, bool) {
				listed := s.call("GET", "/thread?deleted=true", nil).ids()
				return listed, listed == ""
			})
			if got := s.call("GET", "/thread?projectId=p&metadata="+url.QueryEscape(`{"k":"v"}`), nil).ids(); got != "stays" {
				t.Errorf("got %s, want stays", got)
			}
			s.call("PUT", "/thread/t", object{"project_id": "p"}).want(200)
		})
	}
}

// checkReadsNothing tries every route that reads, or that takes only an id.
func checkReadsNothing(other *steward, orgID string, records []string) {
	for _, face := range []string{"", "/sdk"} {
		for _, path := range records {
			other.call("GET", face+path, nil).want(404)
		}
		other.call("DELETE", face+"/thread/t", nil).want(404)
		other.call("DELETE", face+"/thread/gone", nil).want(404)
		other.call("PUT", face+"/evalrun", object{"id": "r1"}).want(404)
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
		if got := other.call("GET", list, nil); got.ids() != "" || got.header.Get("X-Total-Count") != "0" {
			other.t.Errorf("%s: %s, total %s", list, got.body, got.header.Get("X-Total-Count"))
		}
	}
	socket := other.socket()
	if data := socket.do("restore", object{"thread_id": "t"}); data != nil {
		other.t.Errorf("restored %s", *data)
	}
	socket.do("delete", object{"thread_id": "t"}) // succeeds and deletes nothing
}

// checkWritesNothing writes with a key of another organization: records that name the organization of
// s are refused, the same ids create records of its own.
func checkWritesNothing(stranger, s *steward) {
	run := evalRun{ID: "r2", SessionID: "s1", EvalID: "e1", ProjectID: "p1"}.body(s.orgID, 0)
	eval := object{"name": "mine", "agentIdentifier": "a", "projectId": "p1", "orgId": s.orgID}
	stranger.call("POST", "/session", newSession(s, "s2", "t", "p1")).want(403)
	stranger.call("POST", "/evalrun", run).want(403)
	stranger.call("PUT", "/cli/eval/e1", eval).want(403)
	eval["id"] = "e1"
	stranger.call("POST", "/cli/devmode/eval", object{"create": []object{eval}}).want(403)
	stranger.call("GET", "/sdk/thread", nil, "x-agentuity-orgid", s.orgID).want(403)
	stranger.call("PUT", "/thread/t", object{"project_id": "p1", "user_data": `{"of":"a stranger"}`}).want(200)
	stranger.call("PUT", "/session", object{"id": "s1", "threadId": "t", "statusCode": 500}).want(200)
	stranger.call("POST", "/cli/devmode/eval", object{"delete": []string{"e1"}}).want(200)
	stranger.call("DELETE", "/cli/project/p1", nil).want(204)
}

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/e2e/process"
)

func TestFirstStart(t *testing.T) {
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			s := begin(t, name)
			var keys []struct{ Type, OrgID, Name string }
			s.call("GET", "/cli/apikey", nil).want(200).into(&keys)
			if len(keys) != 1 || keys[0].Type != "root" || keys[0].OrgID != s.orgID {
				t.Fatalf("a fresh installation has the keys %+v", keys)
			}
			var addresses struct {
				BaseURL string `json:"base_url"`
				PID     int
			}
			text, err := os.ReadFile(filepath.Join(s.Dir, "steward.json"))
			s.must(err)
			s.must(json.Unmarshal(text, &addresses))
			if addresses.BaseURL != s.URL || addresses.PID != s.Cmd.Process.Pid {
				t.Fatalf("steward.json says %s", text)
			}
			org := s.orgID
			s.stop()
			if strings.Contains(s.Log(), s.key) {
				t.Fatal("the log holds the root key")
			}
			s.run()
			if s.orgID != org {
				t.Fatal("a later start has another organization")
			}
		})
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	s := begin(t, "sqlite")
	out, err := s.Command("serve", "--listen", "127.0.0.1:0").CombinedOutput()
	want := fmt.Sprintf("in use by process %d", s.Cmd.Process.Pid)
	if err == nil || !strings.Contains(string(out), want) {
		t.Fatalf("got %v: %s", err, out)
	}
}

func TestWrongMasterKeyIsRefused(t *testing.T) {
	each(t, func(t *testing.T, s *steward) {
		s.stop()
		cmd := s.Command("serve", "--listen", "127.0.0.1:0")
		cmd.Env = append(cmd.Env, "STEWARD_MASTER_KEY="+strings.Repeat("ab", 32))
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "master key") {
			t.Fatalf("got %v: %s", err, out)
		}
	})
}

func TestRootKeyCommand(t *testing.T) {
	each(t, func(t *testing.T, s *steward) {
		s.stop()
		out, err := s.Command("root-key").Output()
		s.must(err)
		s.run()
		s.as(strings.TrimSpace(string(out))).call("GET", "/oidc/org/members", nil).want(200)
		var lines []map[string]any
		s.call("GET", "/audit", nil).want(200).into(&lines)
		if len(lines) != 1 || lines[0]["action"] != "apikey.root" || lines[0]["user_id"] != nil {
			t.Errorf("the audit log says %v", lines)
		}
	})
}

func TestKeysLiveAndDie(t *testing.T) {
	each(t, func(t *testing.T, s *steward) {
		made := s.call("POST", "/cli/apikey", map[string]any{"name": "ci", "expiresAt": nil, "projectId": "prj_new"}).want(201)
		id, key := made.text("id"), made.text("value")
		confined := s.as(key)
		confined.call("GET", "/cli/project", nil).want(200)
		confined.call("GET", "/cli/apikey", nil).want(403)
		got := s.call("GET", "/cli/apikey/"+id, nil).want(200)
		if got.text("type") != "project" || got.text("project.id") != "prj_new" || got.get("expiresAt") != nil {
			t.Fatalf("got %s", got.body)
		}
		s.call("DELETE", "/cli/apikey/"+id, nil, "If-Match", `"77"`).want(412)
		gone := s.call("DELETE", "/cli/apikey/"+id, nil, "If-Match", got.header.Get("ETag")).want(204)
		if len(gone.body) != 0 {
			t.Fatalf("a 204 with a body: %s", gone.body)
		}
		confined.call("GET", "/cli/project", nil).want(401)
		s.call("GET", "/cli/apikey/"+id, nil).want(404)
	})
}

// TestDeletedKeyOnAnotherReplica shows that a key which is deleted on one replica is refused by the other within a second, although the
// other has it in memory.
func TestDeletedKeyOnAnotherReplica(t *testing.T) {
	one := begin(t, "postgres")
	two := one.replica()
	made := one.call("POST", "/cli/apikey", map[string]any{"name": "short-lived"}).want(201)
	on2 := two.as(made.text("value"))
	on2.call("GET", "/cli/region", nil).want(200)
	one.call("DELETE", "/cli/apikey/"+made.text("id"), nil).want(204)
	within(t, time.Second, "the other replica to refuse the key", func() bool {
		return on2.call("GET", "/cli/region", nil).status == 401
	})
}

// TestKillDuringWrites kills the process in the middle of a write load and looks for every write that was acknowledged.
func TestKillDuringWrites(t *testing.T) {
	each(t, func(t *testing.T, s *steward) {
		acked := map[string]string{}
		for round := range 3 {
			maps.Copy(acked, writeUntilKilled(s, round))
			s.run()
		}
		var projects []struct{ ID, Name string }
		s.call("GET", "/cli/project", nil).want(200).into(&projects)
		there := map[string]string{}
		for _, p := range projects {
			there[p.ID] = p.Name
		}
		for id, name := range acked {
			if there[id] != name {
				t.Errorf("%s %q was acknowledged and is gone", id, name)
			}
		}
		t.Logf("%d acknowledged, %d there", len(acked), len(there))
		if len(acked) < 30 {
			t.Fatalf("only %d writes were acknowledged: the load was too small to show anything", len(acked))
		}
	})
}

// writeUntilKilled makes projects from several clients and kills the process after some of them were acknowledged.
func writeUntilKilled(s *steward, round int) map[string]string {
	var mu sync.Mutex
	var clients sync.WaitGroup
	acked := map[string]string{}
	enough := make(chan struct{})
	for c := range 8 {
		clients.Go(func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("project %d-%d-%d", round, c, i)
				a, err := s.try("POST", "/cli/project", map[string]any{"name": name})
				if err != nil || a.status != 201 {
					return
				}
				mu.Lock()
				acked[a.text("id")] = name
				if len(acked) == 60 {
					close(enough)
				}
				mu.Unlock()
			}
		})
	}
	<-enough
	s.kill()
	clients.Wait()
	return acked
}

// TestIdempotencyOverRestartAndReplicas repeats a request whose answer holds a secret.
func TestIdempotencyOverRestartAndReplicas(t *testing.T) {
	each(t, func(t *testing.T, s *steward) {
		body := map[string]any{"name": "once"}
		first := s.call("POST", "/cli/apikey", body, "Idempotency-Key", "a-1").want(201)
		again := s.call("POST", "/cli/apikey", body, "Idempotency-Key", "a-1").want(201)
		if string(first.body) != string(again.body) {
			t.Fatalf("first %s, again %s", first.body, again.body)
		}
		s.call("POST", "/cli/apikey", map[string]any{"name": "other"}, "Idempotency-Key", "a-1").want(422)
		s.kill()
		s.run()
		again = s.call("POST", "/cli/apikey", body, "Idempotency-Key", "a-1").want(201)
		if string(first.body) != string(again.body) {
			t.Fatalf("after a restart: first %s, again %s", first.body, again.body)
		}
		if s.Database != "" {
			again = s.replica().call("POST", "/cli/apikey", body, "Idempotency-Key", "a-1").want(201)
			if string(first.body) != string(again.body) {
				t.Fatalf("on a replica: first %s, again %s", first.body, again.body)
			}
		}
		var keys []any
		s.call("GET", "/cli/apikey", nil).want(200).into(&keys)
		if len(keys) != 2 {
			t.Fatalf("%d keys, want the root key and one", len(keys))
		}
	})
}

// TestIdempotencyOfConcurrentRepeats sends one request many times at once: one takes effect, all get its answer.
func TestIdempotencyOfConcurrentRepeats(t *testing.T) {
	each(t, func(t *testing.T, s *steward) {
		answers := make([]string, 16)
		var clients sync.WaitGroup
		for i := range answers {
			clients.Go(func() {
				a, err := s.try("POST", "/cli/project", map[string]any{"name": "one"}, "Idempotency-Key", "k")
				if err == nil {
					answers[i] = fmt.Sprint(a.status, string(a.body))
				}
			})
		}
		clients.Wait()
		for _, a := range answers {
			if a != answers[0] || !strings.HasPrefix(a, "201") {
				t.Fatalf("different answers: %s and %s", answers[0], a)
			}
		}
	})
}

package e2e

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"steward/internal/waittest"
)

func TestThreadIsCreatedReplacedAndDeleted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		s.call("PUT", "/thread/t1", object{"user_data": "{}"}).want(422)
		first := object{"project_id": "prj_new", "user_data": `{"a":1}`, "metadata": object{"n": 1, "who": "ada"}}
		made := s.call("PUT", "/thread/t1", first).want(200)
		fields := object{
			"id": "t1", "deleted": false, "deleted_at": nil, "deleted_by": nil,
			"org_id": s.orgID, "project_id": "prj_new", "user_data": `{"a":1}`,
		}
		for key, want := range fields {
			present := strings.Contains(string(made.body), `"`+key+`":`)
			if got := made.get(key); got != want || !present {
				t.Errorf("%s is %v, want %v", key, got, want)
			}
		}
		tag := made.header.Get("ETag")
		got := s.call("GET", "/thread/t1", nil).want(200)
		if string(got.body) != string(made.body) || got.header.Get("ETag") != tag {
			t.Errorf("GET returns %s, PUT returned %s", got.body, made.body)
		}
		s.call("PUT", "/thread/t1", object{"metadata": object{"n": 1.0}}, "If-Match", tag).want(200)
		s.call("PUT", "/thread/t1", object{}, "If-Match", tag).want(412)
		s.call("PUT", "/thread/a%20b", object{"project_id": "prj_new"}).want(422)
		s.call("PUT", "/thread/ws", object{"project_id": "prj_new"}).want(422) // the socket's path
		s.call("PUT", "/thread/t2", object{"project_id": "a b"}).want(422)
		s.call("PUT", "/thread/t2", object{"project_id": "prj_new", "user_data": "x"}).want(422)
		s.call("PUT", "/thread/t2", object{"project_id": "prj_new", "metadata": []int{}}).want(422)
		if !strings.Contains(string(s.call("GET", "/cli/project", nil).want(200).body), `"prj_new"`) {
			t.Error("the project of the thread is not listed")
		}

		s.call("DELETE", "/thread/t1", nil, "If-Match", tag).want(412)
		if gone := s.call("DELETE", "/thread/t1", nil).want(204); len(gone.body) != 0 {
			t.Errorf("204 with a body: %s", gone.body)
		}
		s.call("DELETE", "/thread/t1", nil).want(404)
		s.call("GET", "/thread/t1", nil).want(404)
		s.call("PUT", "/thread/t1", object{"project_id": "prj_new"}).want(409)
		deleted := s.call("GET", "/thread?deleted=true&metadata="+url.QueryEscape(`{"n":1}`), nil)
		body := string(deleted.body)
		if deleted.ids() != "t1" || !strings.Contains(body, `"deleted":true`) || strings.Contains(body, `"deleted_by":null`) {
			t.Errorf("deleted threads: %s", deleted.body)
		}
		s.stop()
		s.start()
		s.call("GET", "/thread/t1", nil).want(404)
		if got := s.call("GET", "/sdk/thread?deleted=true", nil).want(200); got.get("success") != true {
			t.Errorf("on the SDK face: %s", got.body)
		}
	})
}

func TestThreadListsAreFilteredAndPaged(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		for i := range 25 {
			body := object{"project_id": fmt.Sprintf("p%d", i%2), "metadata": object{"third": i % 3, "all": "x"}}
			s.call("PUT", fmt.Sprintf("/thread/t%02d", i), body).want(200)
		}
		s.call("PUT", "/thread/t05", object{"metadata": object{"third": 2, "all": "x"}}).want(200)
		list := func(query string) *response { return s.call("GET", "/thread?"+query, nil).want(200) }
		filter := func(text string) string { return "&metadata=" + url.QueryEscape(text) }
		for query, want := range map[string]string{
			"":                                  "t24 t23 t22 t21 t20 t19 t18 t17 t16 t15",
			"limit=3&offset=2":                  "t22 t21 t20",
			"limit=2&direction=asc":             "t00 t01",
			"limit=2&sort=updated":              "t05 t24",
			"limit=3&projectId=p1":              "t23 t21 t19",
			"limit=2&projectId=p0&sort=updated": "t24 t22",
			"limit=2" + filter(`{"third":0.0}`): "t24 t21",
			"limit=2&projectId=p1" + filter(`{"all":"x","third":0}`): "t21 t15",
			"sort=updated&limit=1" + filter(`{"third":2}`):           "t05",
			"direction=asc&limit=2&offset=1" + filter(`{"all":"x"}`): "t01 t02",
			filter(`{"third":[2]}`):                                  "",
			"orgId=org_other":                                        "",
			"projectId=nowhere":                                      "",
			"limit=0":                                                "",
			"limit=1&orgId=" + s.orgID + "&offset=24":                "t00",
		} {
			if got := list(query).ids(); got != want {
				t.Errorf("%s: got %s, want %s", query, got, want)
			}
		}
		for query, want := range map[string]string{
			"": "25", "projectId=p1": "12", filter(`{"third":0}`): "9",
			"deleted=true": "0", "orgId=org_other": "0", "limit=0": "25",
		} {
			if got := list(query).header.Get("X-Total-Count"); got != want {
				t.Errorf("%s: X-Total-Count %s, want %s", query, got, want)
			}
		}
		for _, query := range []string{
			"limit=1001", "limit=-1", "limit=x", "offset=-1", "sort=name", "direction=up",
			"metadata=1", "metadata={", "metadata={}&metadata={}", "deleted=maybe", "cursor=x",
		} {
			a := s.call("GET", "/thread?"+query, nil).want(422)
			if name, _, _ := strings.Cut(query, "="); !strings.Contains(string(a.body), name) {
				t.Errorf("%s: the error does not name the parameter: %s", query, a.body)
			}
		}
		got := s.pages("/thread?limit=7"+filter(`{"all":"x"}`), nil)
		slices.Reverse(got)
		if len(got) != 25 || got[0] != "t00" || got[24] != "t24" || !slices.IsSorted(got) {
			t.Errorf("by the next links: %v", got)
		}
	})
}

func TestThreadsOfProjectsAreIsolated(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		one, two := s.keyOf("p1"), s.keyOf("p2")
		one.call("PUT", "/thread/t", object{"metadata": object{"k": "v"}}).want(200)
		for _, path := range []string{"/thread/t", "/sdk/thread/t"} {
			two.call("GET", path, nil).want(404)
			two.call("PUT", path, object{}).want(404)
			two.call("DELETE", path, nil).want(404)
		}
		two.call("PUT", "/thread/u", object{"project_id": "p1"}).want(403)
		one.call("PUT", "/thread/t", object{"project_id": "p2"}).want(403)
		for _, query := range []string{"", "?projectId=p1", "?metadata=" + url.QueryEscape(`{"k":"v"}`)} {
			if got := two.call("GET", "/thread"+query, nil); got.ids() != "" || got.header.Get("X-Total-Count") != "0" {
				t.Errorf("the other project lists %s", got.body)
			}
		}
		s.call("PUT", "/thread/t", object{"project_id": "p2"}).want(200)
		one.call("GET", "/thread/t", nil).want(404)
		two.call("GET", "/thread/t", nil).want(200)
		s.call("DELETE", "/cli/project/p2", nil).want(204)
		s.call("GET", "/thread/t", nil).want(404)
		if got := s.call("GET", "/thread", nil).header.Get("X-Total-Count"); got != "0" {
			t.Errorf("%s threads are counted after their project was deleted", got)
		}
	})
}

func TestThreadSizeIsLimited(t *testing.T) { each(t, checkThreadSizes) }

func checkThreadSizes(t *testing.T, s *steward) {
	full := `"` + strings.Repeat(`\"`, 1<<19-1) + `"` // 1 MiB, and nearly 3 MiB when it is escaped
	metadata := object{"m": strings.Repeat("é", 1<<19-4)}
	s.call("PUT", "/thread/t", object{"project_id": "p", "user_data": full, "metadata": metadata}).want(200)
	if got := s.call("GET", "/thread/t", nil).want(200).text("user_data"); got != full {
		t.Errorf("%d bytes were returned, want %d", len(got), len(full))
	}
	if got := s.call("GET", "/thread", nil); !strings.Contains(string(got.body), `"user_data":null`) {
		t.Error("a list has a user_data of 1 MiB")
	}
	s.call("PUT", "/thread/t", object{"user_data": full[:len(full)-1] + ` "`}).want(422)
	s.call("PUT", "/thread/t", object{"user_data": strings.Repeat(" ", 9<<20)}).want(413)
}

// TestAcknowledgedSavesSurviveKill kills the process while sockets save threads.
func TestAcknowledgedSavesSurviveKill(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		acked := map[string]string{}
		for round := range 3 {
			saveUntilKilled(s, round, acked)
			s.start()
		}
		for id, want := range acked {
			// The last save before the kill may be stored without having been acknowledged.
			if got := s.call("GET", "/thread/"+id, nil).want(200).text("user_data"); got < want {
				t.Errorf("%s: %s was acknowledged, %s is stored", id, want, got)
			}
		}
		t.Logf("%d threads have acknowledged saves", len(acked))
		all := s.call("GET", "/thread?limit=1000", nil)
		total := all.header.Get("X-Total-Count")
		if stored := len(strings.Fields(all.ids())); total != fmt.Sprint(stored) || stored < len(acked) {
			t.Errorf("%d acknowledged, %d stored, %s counted", len(acked), stored, total)
		}
	})
}

// saveUntilKilled saves threads again and again over 16 sockets, each time with a larger number, adds
// what was acknowledged to acked, and kills the process after 400 saves.
func saveUntilKilled(s *steward, round int, acked map[string]string) {
	var mu sync.Mutex
	var sockets sync.WaitGroup
	total := 0
	for c := range 16 {
		a := s.socket()
		sockets.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("t-%d-%d-%d", round, c, i%5)
				data := fmt.Sprintf(`"%08d"`, i)
				r, err := a.try("save", object{"thread_id": id, "user_data": data, "metadata": object{"i": i}})
				if err != nil || !r.Success {
					return
				}
				mu.Lock()
				acked[id] = data
				total++
				mu.Unlock()
			}
		})
	}
	waittest.Until(s.t, "400 acknowledged saves", func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		return total, total >= 400
	})
	s.kill()
	sockets.Wait()
}

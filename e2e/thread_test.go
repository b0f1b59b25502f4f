package e2e

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"steward/e2e/installation"
)

func TestThreadIsCreatedReplacedAndDeleted(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		s.Call("PUT", "/thread/t1", object{"user_data": "{}"}).Want(422)
		first := object{"project_id": "prj_new", "user_data": `{"a":1}`, "metadata": object{"n": 1, "who": "ada"}}
		made := s.Call("PUT", "/thread/t1", first).Want(200)
		fields := object{
			"id": "t1", "deleted": false, "deleted_at": nil, "deleted_by": nil,
			"org_id": s.OrgID, "project_id": "prj_new", "user_data": `{"a":1}`,
		}
		for key, want := range fields {
			present := strings.Contains(string(made.Body), `"`+key+`":`)
			if got := made.Get(key); got != want || !present {
				t.Errorf("%s is %v, want %v", key, got, want)
			}
		}
		tag := made.Header.Get("ETag")
		got := s.Call("GET", "/thread/t1", nil).Want(200)
		if string(got.Body) != string(made.Body) || got.Header.Get("ETag") != tag {
			t.Errorf("GET returns %s, PUT returned %s", got.Body, made.Body)
		}
		s.Call("PUT", "/thread/t1", object{"metadata": object{"n": 1.0}}, "If-Match", tag).Want(200)
		s.Call("PUT", "/thread/t1", object{}, "If-Match", tag).Want(412)
		s.Call("PUT", "/thread/a%20b", object{"project_id": "prj_new"}).Want(422)
		s.Call("PUT", "/thread/ws", object{"project_id": "prj_new"}).Want(422) // the socket's path
		s.Call("PUT", "/thread/t2", object{"project_id": "a b"}).Want(422)
		s.Call("PUT", "/thread/t2", object{"project_id": "prj_new", "user_data": "x"}).Want(422)
		s.Call("PUT", "/thread/t2", object{"project_id": "prj_new", "metadata": []int{}}).Want(422)
		if !strings.Contains(string(s.Call("GET", "/cli/project", nil).Want(200).Body), `"prj_new"`) {
			t.Error("the project of the thread is not listed")
		}

		s.Call("DELETE", "/thread/t1", nil, "If-Match", tag).Want(412)
		if gone := s.Call("DELETE", "/thread/t1", nil).Want(204); len(gone.Body) != 0 {
			t.Errorf("204 with a body: %s", gone.Body)
		}
		s.Call("DELETE", "/thread/t1", nil).Want(404)
		s.Call("GET", "/thread/t1", nil).Want(404)
		s.Call("PUT", "/thread/t1", object{"project_id": "prj_new"}).Want(409)
		deleted := s.Call("GET", "/thread?deleted=true&metadata="+url.QueryEscape(`{"n":1}`), nil)
		body := string(deleted.Body)
		if deleted.IDs() != "t1" || !strings.Contains(body, `"deleted":true`) || strings.Contains(body, `"deleted_by":null`) {
			t.Errorf("deleted threads: %s", deleted.Body)
		}
		s.Stop()
		s.Start()
		s.Call("GET", "/thread/t1", nil).Want(404)
		if got := s.Call("GET", "/sdk/thread?deleted=true", nil).Want(200); got.Get("success") != true {
			t.Errorf("on the SDK face: %s", got.Body)
		}
	})
}

func TestThreadListsAreFilteredAndPaged(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		for i := range 25 {
			body := object{"project_id": fmt.Sprintf("p%d", i%2), "metadata": object{"third": i % 3, "all": "x"}}
			s.Call("PUT", fmt.Sprintf("/thread/t%02d", i), body).Want(200)
		}
		s.Call("PUT", "/thread/t05", object{"metadata": object{"third": 2, "all": "x"}}).Want(200)
		list := func(query string) *installation.Response { return s.Call("GET", "/thread?"+query, nil).Want(200) }
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
			"limit=1&orgId=" + s.OrgID + "&offset=24":                "t00",
		} {
			if got := list(query).IDs(); got != want {
				t.Errorf("%s: got %s, want %s", query, got, want)
			}
		}
		for query, want := range map[string]string{
			"": "25", "projectId=p1": "12", filter(`{"third":0}`): "9",
			"deleted=true": "0", "orgId=org_other": "0", "limit=0": "25",
		} {
			if got := list(query).Header.Get("X-Total-Count"); got != want {
				t.Errorf("%s: X-Total-Count %s, want %s", query, got, want)
			}
		}
		for _, query := range []string{
			"limit=1001", "limit=-1", "limit=x", "offset=-1", "sort=name", "direction=up",
			"metadata=1", "metadata={", "metadata={}&metadata={}", "deleted=maybe", "cursor=x",
		} {
			a := s.Call("GET", "/thread?"+query, nil).Want(422)
			if name, _, _ := strings.Cut(query, "="); !strings.Contains(string(a.Body), name) {
				t.Errorf("%s: the error does not name the parameter: %s", query, a.Body)
			}
		}
		got := s.Pages("/thread?limit=7"+filter(`{"all":"x"}`), nil)
		slices.Reverse(got)
		if len(got) != 25 || got[0] != "t00" || got[24] != "t24" || !slices.IsSorted(got) {
			t.Errorf("by the next links: %v", got)
		}
	})
}

func TestThreadsOfProjectsAreIsolated(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		one, two := s.KeyOf("p1"), s.KeyOf("p2")
		one.Call("PUT", "/thread/t", object{"metadata": object{"k": "v"}}).Want(200)
		for _, path := range []string{"/thread/t", "/sdk/thread/t"} {
			two.Call("GET", path, nil).Want(404)
			two.Call("PUT", path, object{}).Want(404)
			two.Call("DELETE", path, nil).Want(404)
		}
		two.Call("PUT", "/thread/u", object{"project_id": "p1"}).Want(403)
		one.Call("PUT", "/thread/t", object{"project_id": "p2"}).Want(403)
		for _, query := range []string{"", "?projectId=p1", "?metadata=" + url.QueryEscape(`{"k":"v"}`)} {
			if got := two.Call("GET", "/thread"+query, nil); got.IDs() != "" || got.Header.Get("X-Total-Count") != "0" {
				t.Errorf("the other project lists %s", got.Body)
			}
		}
		s.Call("PUT", "/thread/t", object{"project_id": "p2"}).Want(200)
		one.Call("GET", "/thread/t", nil).Want(404)
		two.Call("GET", "/thread/t", nil).Want(200)
		s.Call("DELETE", "/cli/project/p2", nil).Want(204)
		s.Call("GET", "/thread/t", nil).Want(404)
		if got := s.Call("GET", "/thread", nil).Header.Get("X-Total-Count"); got != "0" {
			t.Errorf("%s threads are counted after their project was deleted", got)
		}
	})
}

func TestThreadSizeIsLimited(t *testing.T) {
	t.Parallel()
	installation.Each(t, checkThreadSizes)
}

func checkThreadSizes(t *testing.T, s *installation.Steward) {
	full := `"` + strings.Repeat(`\"`, 1<<19-1) + `"` // 1 MiB, and nearly 3 MiB when it is escaped
	metadata := object{"m": strings.Repeat("é", 1<<19-4)}
	s.Call("PUT", "/thread/t", object{"project_id": "p", "user_data": full, "metadata": metadata}).Want(200)
	if got := s.Call("GET", "/thread/t", nil).Want(200).Text("user_data"); got != full {
		t.Errorf("%d bytes were returned, want %d", len(got), len(full))
	}
	if got := s.Call("GET", "/thread", nil); !strings.Contains(string(got.Body), `"user_data":null`) {
		t.Error("a list has a user_data of 1 MiB")
	}
	s.Call("PUT", "/thread/t", object{"user_data": full[:len(full)-1] + ` "`}).Want(422)
	s.Call("PUT", "/thread/t", object{"user_data": strings.Repeat(" ", 9<<20)}).Want(413)
}

package client_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"steward/client"
)

// projects answers with pages of n projects, whose next links have another host and path.
func projects(n int) answer {
	return func(w http.ResponseWriter, r *http.Request) {
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		first, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
		end := min(first+limit, n)
		link := `<http://other.example/first?limit=1&offset=0>; rel="first"`
		if end < n {
			link += fmt.Sprintf(`, <http://other.example/wrong?limit=%d&cursor=%d>; rel="next"`, limit, end)
		}
		body := "["
		for i := first; i < end; i++ {
			if i > first {
				body += ","
			}
			body += fmt.Sprintf(`{"id":"prj_%d","name":"p"}`, i)
		}
		status(200, body+"]", "Link", link+`, </last?limit=1>; rel="last"`)(w, r)
	}
}

func TestIteratorsFollowNextLinks(t *testing.T) {
	for n, want := range map[int]int{0: 1, 1: 1, 100: 1, 101: 2, 250: 3} {
		s, c := serve(t, projects(n))
		seen := 0
		for project, err := range c.AllProjects(t.Context(), nil) {
			if err != nil || project.ID != fmt.Sprint("prj_", seen) {
				t.Fatalf("project %d of %d is %+v, %v", seen, n, project, err)
			}
			seen++
		}
		if seen != n || len(s.all()) != want {
			t.Errorf("%d of %d projects in %d requests, want %d", seen, n, len(s.all()), want)
		}
	}
}

func TestIteratorsAreLazyAndCanBeRepeated(t *testing.T) {
	s, c := serve(t, projects(25))
	all := c.AllProjects(t.Context(), &client.ListProjectsParams{Limit: 10})
	if len(s.all()) != 0 {
		t.Error("a page was requested before it was needed")
	}
	for range 2 {
		for project := range all {
			if project.ID == "prj_12" {
				break
			}
		}
	}
	var paths []string
	for _, r := range s.all() {
		paths = append(paths, r.path)
	}
	if want := slices.Repeat([]string{"/cli/project?limit=10", "/cli/project?cursor=10&limit=10"}, 2); !slices.Equal(paths, want) {
		t.Errorf("%q, want %q", paths, want)
	}
}

func TestIteratorsEndWithAnError(t *testing.T) {
	s, c := serve(t, projects(250), status(403, ""))
	seen := 0
	var last error
	for _, err := range c.AllProjects(t.Context(), nil) {
		last = err
		seen++
	}
	if !client.IsForbidden(last) || seen != 101 || len(s.all()) != 2 {
		t.Errorf("%d items, %d requests, %v", seen, len(s.all()), last)
	}
}

func TestItemsOfAnyList(t *testing.T) {
	s, c := serve(t, projects(3))
	seen := 0
	for project, err := range client.Items[map[string]string](t.Context(), c, "/cli/project?limit=2&x=y") {
		if err != nil || project["id"] != fmt.Sprint("prj_", seen) {
			t.Errorf("%v, %v", project, err)
		}
		seen++
	}
	if seen != 3 || s.all()[0].path != "/cli/project?limit=2&x=y" {
		t.Errorf("%d items, %+v", seen, s.all()[0])
	}
	for _, err := range client.Items[any](t.Context(), c, "/cli/project?%zz") {
		if err == nil {
			t.Error("no error for a malformed query")
		}
	}
}

func TestAllObjectsFollowsCursors(t *testing.T) {
	s, c := serve(t, status(200, `{"objects":[{"key":"a"},{"key":"b"}],"next":"n1"}`), status(200, `{"objects":[{"key":"c"}]}`))
	var keys []string
	for object, err := range c.AllObjects(t.Context(), "invoices", "2026/") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, object.Key)
	}
	if !slices.Equal(keys, []string{"a", "b", "c"}) || s.all()[1].path != "/storage/objects/invoices?cursor=n1&limit=1000&prefix=2026%2F" {
		t.Errorf("%v, %+v", keys, s.all())
	}
}

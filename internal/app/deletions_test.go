package app

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// TestLosersOfADeletionGet404 deletes one thing of each kind in several requests at once.
func TestLosersOfADeletionGet404(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, nil)
		create := func(method, path, body, id string) string {
			t.Helper()
			got := f.send("owner", method, path, body)
			if got.Code >= 300 {
				t.Fatalf("%s %s: %d %s", method, path, got.Code, got.Body)
			}
			if id == "" {
				return ""
			}
			return valueAt(t, got, id)
		}
		hook := create("POST", "/webhook/create", `{"name":"a"}`, "id")
		resources := "/resource/" + f.orgID + "/local"
		threads := 0
		for _, c := range []struct{ create, body, id, remove, removeBody string }{
			{"POST /cli/project", `{"name":"a"}`, "id", "/cli/project/%s", ""},
			{"POST /oidc/org/members", `{"email":"a@example.com","role":"viewer"}`, "id", "/oidc/org/members/%s", ""},
			{"POST /oidc/clients", `{"name":"a","description":"","homepage_url":"https://a.example"}`, "client.id", "/oidc/clients/%s", ""},
			{"POST /oidc/upstream", `{"name":"a","issuer":"https://a.example","client_id":"c","client_secret":"s"}`, "id", "/oidc/upstream/%s", ""},
			{"POST /alert", `{"name":"a","kind":"destination_failing","target":{"type":"slack","url":"https://a.example"}}`, "id", "/alert/%s", ""},
			{"POST /oidc/registration-token", `{"name":"a","expires_in":3600,"uses":5}`, "id", "/oidc/registration-token/%s", ""},
			{"POST /cli/apikey", `{"name":"a"}`, "id", "/cli/apikey/%s", ""},
			{"PUT /thread/", `{"project_id":"prj_test"}`, "id", "/thread/%s", ""},
			{"POST /webhook/create", `{"name":"b"}`, "id", "/webhook/delete/%s", ""},
			{"POST /webhook/destination-create/" + hook, `{"type":"url","config":{"url":"https://a.example"}}`, "id", "/webhook/destination-delete/" + hook + "/%s", ""},
			{"POST " + resources, `{"resources":[{"type":"s3","name":"losers"}]}`, "", resources, `{"resources":[{"type":"s3","name":"losers"}]}`},
			{"POST " + resources, `{"resources":[{"type":"db","name":"losers"}]}`, "", resources, `{"resources":[{"type":"db","name":"losers"}]}`},
			{"POST " + resources, `{"resources":[{"type":"kv","name":"losers"}]}`, "", resources, `{"resources":[{"type":"kv","name":"losers"}]}`},
		} {
			method, path, _ := strings.Cut(c.create, " ")
			for range 3 {
				if method == "PUT" {
					threads++
					path = fmt.Sprint("/thread/t", threads) // a deleted id stays deleted
				}
				remove := c.remove
				if id := create(method, path, c.body, c.id); id != "" {
					remove = fmt.Sprintf(remove, id)
				}
				var codes []int
				results := requestsAtOnce(8, func() *httptest.ResponseRecorder { return f.send("owner", "DELETE", remove, c.removeBody) })
				for _, got := range results {
					codes = append(codes, got.Code)
					if got.Code >= 300 && got.Code != 404 {
						t.Errorf("DELETE %s: %d %s", remove, got.Code, got.Body)
					}
				}
				slices.Sort(codes)
				if codes[0] >= 300 || codes[1] != 404 {
					t.Errorf("DELETE %s: %v", remove, codes)
				}
			}
		}
	})
}

// requestsAtOnce returns the responses to requests that begin together.
func requestsAtOnce(n int, send func() *httptest.ResponseRecorder) []*httptest.ResponseRecorder {
	begin := make(chan struct{})
	responses := make(chan *httptest.ResponseRecorder)
	for range n {
		go func() {
			<-begin
			responses <- send()
		}()
	}
	close(begin)
	var all []*httptest.ResponseRecorder
	for range n {
		all = append(all, <-responses)
	}
	return all
}

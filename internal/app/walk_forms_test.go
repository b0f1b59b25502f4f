package app

import (
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// unversioned are the routes without a version: lists, what is never changed, what has no row of its own, and runs, which their runtime
// alone changes.
var unversioned = []string{
	"DELETE /oidc/clients/{id}/users/{user_id}", "DELETE /oidc/user/consent/{client_id}", "GET /cli/eval-run/{id}",
	"GET /webhook/destination-list/{webhookId}", "GET /webhook/receipt-get/{webhookId}/{receiptId}",
	"GET /webhook/receipt-payload/{webhookId}/{receiptId}",
}

// TestDocumentOfEveryRoute walks the OpenAPI document: what the house does for every route is told there of every route.
func TestDocumentOfEveryRoute(t *testing.T) {
	h := build(t, dbtest.Open(t, db.SQLite), nil)
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name string }
			Responses  map[string]struct {
				Headers map[string]any
				Content map[string]any
			}
		}
	}
	if err := json.Unmarshal(h.send("", "GET", "/openapi.json", "").Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	for _, r := range h.routes {
		op, ok := doc.Paths[r.Path][strings.ToLower(r.Method)]
		if !ok {
			t.Errorf("%s is not in the document", r.Pattern())
		}
		takes := func(name string) bool {
			return slices.ContainsFunc(op.Parameters, func(p struct{ Name string }) bool { return p.Name == name })
		}
		versioned, list := false, false
		for _, answer := range op.Responses {
			versioned = versioned || answer.Headers["ETag"] != nil
			list = list || answer.Headers["Link"] != nil
		}
		one := strings.HasSuffix(r.Path, "}") && !list && !slices.Contains(unversioned, r.Pattern())
		switch r.Method {
		case "POST":
			if !takes("Idempotency-Key") {
				t.Errorf("%s does not tell of Idempotency-Key", r.Pattern())
			}
		case "PUT", "DELETE":
			if one && !takes("If-Match") {
				t.Errorf("%s takes no If-Match", r.Pattern())
			}
		case "GET":
			if one && !versioned {
				t.Errorf("%s has no ETag", r.Pattern())
			}
		}
	}
}

// TestFacesKeepApart: neither leads to the other by a link or a prefix.
func TestFacesKeepApart(t *testing.T) {
	h := build(t, dbtest.Open(t, db.SQLite), nil)
	for prefix, want := range map[string]string{"": "</cli/apikey?", "/sdk": "</sdk/cli/apikey?"} {
		links := h.send("owner", "GET", prefix+"/cli/apikey?limit=2", "").Header().Get("Link")
		for link := range strings.SplitSeq(links, ", ") {
			if !strings.HasPrefix(link, want) {
				t.Errorf("%s/cli/apikey links to %s", prefix, link)
			}
		}
		if strings.Count(links, want) != 3 {
			t.Errorf("links to %s, want first, next and last", links)
		}
	}
	if got := h.send("owner", "GET", "/sdk/sdk/cli/region", ""); got.Code != 404 || !strings.HasPrefix(got.Body.String(), `{"success":false`) {
		t.Errorf("a face within the face: %d %s", got.Code, got.Body)
	}
}

// TestOneKeyOnBothFaces: made, read, refused and deleted, with the same values and statuses, each in its own form.
func TestOneKeyOnBothFaces(t *testing.T) {
	h := build(t, dbtest.Open(t, db.SQLite), nil)
	bare := h.send("owner", "POST", "/cli/apikey", `{"name":"a"}`)
	sdk := h.send("owner", "POST", "/sdk/cli/apikey", `{"name":"a"}`)
	var enveloped struct {
		Success bool
		Data    struct{ ID, Value string }
	}
	if err := json.Unmarshal(sdk.Body.Bytes(), &enveloped); err != nil || sdk.Code != 201 || bare.Code != 201 || len(enveloped.Data.Value) != 52 {
		t.Fatalf("%d %s and %d %s", bare.Code, bare.Body, sdk.Code, sdk.Body)
	}
	id := field(bare, "id")
	one, same := h.send("owner", "GET", "/cli/apikey/"+id, ""), h.send("owner", "GET", "/sdk/cli/apikey/"+id, "")
	if strings.TrimSpace(same.Body.String()) != `{"success":true,"data":`+strings.TrimSpace(one.Body.String())+`}` ||
		one.Header().Get("ETag") == "" || one.Header().Get("ETag") != same.Header().Get("ETag") {
		t.Errorf("%s and %s", one.Body, same.Body)
	}
	if got := h.send("owner", "DELETE", "/cli/apikey/"+id, ""); got.Code != 204 || got.Body.Len() != 0 {
		t.Errorf("deleted: %d %s", got.Code, got.Body)
	}
	got := h.send("owner", "DELETE", "/sdk/cli/apikey/"+enveloped.Data.ID, "")
	if got.Code != 200 || strings.TrimSpace(got.Body.String()) != `{"success":true,"data":1}` {
		t.Errorf("deleted on the SDK face: %d %s", got.Code, got.Body)
	}
	if got := h.send("owner", "DELETE", "/sdk/cli/project/prj_walk", ""); strings.TrimSpace(got.Body.String()) != `{"success":true}` {
		t.Errorf("a deletion without anything to tell: %d %s", got.Code, got.Body)
	}
}

// TestQueries: a value that is not of its type, or out of its bounds, is named; a query that cannot be read is refused whole.
func TestQueries(t *testing.T) {
	h := build(t, dbtest.Open(t, db.SQLite), nil)
	for query, c := range map[string]struct {
		status int
		faults []string
	}{
		"":                                  {200, nil},
		"limit=0":                           {200, nil},
		"limit=1000&offset=1":               {200, nil},
		"offset=9223372036854775807":        {200, nil},
		"nobody=knows&this=parameter":       {200, nil},
		"limit=1001":                        {422, []string{"query.limit"}},
		"limit=-1&offset=-1":                {422, []string{"query.limit", "query.offset"}},
		"limit=many":                        {422, []string{"query.limit"}},
		"limit=1.5":                         {422, []string{"query.limit"}},
		"offset=9223372036854775808":        {422, []string{"query.offset"}},
		"cursor=made-up":                    {422, []string{"query.cursor"}},
		"orgId=org_foreign":                 {200, nil},
		"projectId=a%zz":                    {400, nil},
		"projectId=a;limit=1":               {400, nil},
		"projectId=%00":                     {400, nil},
		"projectId=%ff":                     {422, nil},
		"limit=" + strings.Repeat("9", 400): {422, []string{"query.limit"}},
	} {
		got := h.send("owner", "GET", "/cli/apikey?"+query, "")
		if got.Code != c.status {
			t.Errorf("?%.60s: %d %s", query, got.Code, got.Body)
		}
		if locations := locationsOf(got); !slices.Equal(locations, c.faults) {
			t.Errorf("?%.60s: faults at %v, want %v", query, locations, c.faults)
		}
	}
}

// TestEveryFaultAtOnce: of whatever kind they are, a caller hears of all of them in one answer, and none echoes the value.
func TestEveryFaultAtOnce(t *testing.T) {
	h := build(t, dbtest.Open(t, db.SQLite), nil)
	for _, c := range []struct{ path, body, faults string }{
		{"/cli/apikey", `{"name":"QQQ","expiresAt":"QQQ","projectId":"QQQ QQQ"}`, "body.expiresAt body.projectId"},
		{"/cli/apikey", `{"name":" ","expiresAt":"QQQ","projectId":""}`, "body.expiresAt body.name body.projectId"},
		{"/cli/apikey", `{"name":7,"expiresAt":["QQQ"],"orgId":{}}`, "body.expiresAt body.name body.orgId"},
		{"/cli/apikey", `{"name":" ","expiresAt":"2020-01-01T00:00:00Z"}`, "body.name"}, // a past time is seen only beside a good name
		{"/oidc/org/members", `{"email":"QQQ","role":"QQQ","first_name":9}`, "body.email body.first_name body.role"},
		{"/oidc/org/members", `{"email":"QQQ@QQQ@QQQ","role":"viewer"}`, "body.email"},
		{"/cli/project", `{"name":"\t "}`, "body.name"},
	} {
		got := h.send("owner", "POST", c.path, c.body)
		locations := locationsOf(got)
		slices.Sort(locations)
		if got.Code != 422 || strings.Join(locations, " ") != c.faults || strings.Contains(got.Body.String(), "QQQ") {
			t.Errorf("%s: %d %s, want %s", c.body, got.Code, got.Body, c.faults)
		}
	}
}

func locationsOf(rec *httptest.ResponseRecorder) (locations []string) {
	var problem struct{ Errors []struct{ Location string } }
	_ = json.Unmarshal(rec.Body.Bytes(), &problem) // a list has none
	for _, f := range problem.Errors {
		locations = append(locations, f.Location)
	}
	return locations
}

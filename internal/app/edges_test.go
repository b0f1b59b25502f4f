package app

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/web"
)

// TestFaultsOfABodyComeTogether checks that faults of the schema and of the rules are in one
// response, each at its field and in one voice, and that no value is repeated.
func TestFaultsOfABodyComeTogether(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
	for _, c := range []struct{ route, body, faults string }{
		{"POST /webhook/create", `{"NAME":"secret","description":7}`, "body.description body.name"},
		{"POST /webhook/create", `{"name":"  ","retention_seconds":"secret"}`, "body.name body.retention_seconds"},
		{
			"PUT /webhook/update/none", `{"name":null,"retention_seconds":1e12,"description":[]}`,
			"body.description body.name body.retention_seconds",
		},
		{
			"POST /webhook/destination-create/none", `{"Type":"url","config":{"url":"secret","concurrency":"x","headers":{"a b":"c"}}}`,
			"body.config.concurrency body.config.headers.a b body.config.url body.type",
		},
		{
			"PUT /webhook/destination-update/none/none", `{"config":{"URL":"https://a.example","timeout_seconds":61}}`,
			"body.config.timeout_seconds body.config.url",
		},
		{
			"PUT /thread/secret!", `{"project_id":1,"user_data":"{secret","metadata":[1]}`,
			"body.metadata body.project_id body.user_data",
		},
		{
			"POST /session", `{"id":"secret!","statusCode":1,"timestamp":"secret","ORGID":"x"}`,
			"body.devmode body.environment body.id body.method body.orgId body.projectId body.routeId body.timestamp body.trigger body.url",
		},
		{"PUT /session", `{"id":"a b","agentIds":"secret"}`, "body.agentIds body.id body.statusCode body.threadId"},
		{"PUT /cli/eval/none", `{"name":" ","projectId":"a b"}`, "body.agentIdentifier body.name body.projectId"},
		{
			"POST /cli/devmode/eval", `{"create":[{"id":"a b","name":"a","agentIdentifier":"a","projectId":"p"},{"ID":"x"}],"delete":["a b"]}`,
			"body.create[0].id body.create[1].agentIdentifier body.create[1].id body.create[1].name body.create[1].projectId body.delete[0]",
		},
		{"POST /evalrun", `{"id":"a b","timestamp":true}`, "body.evalId body.id body.orgId body.projectId body.sessionId body.timestamp"},
		{"PUT /evalrun", `{"Id":"a","error":7,"timestamp":[]}`, "body.error body.id body.timestamp"},
	} {
		method, path, _ := strings.Cut(c.route, " ")
		got := f.send("owner", method, path, c.body)
		locations := locationsOf(got)
		slices.Sort(locations)
		if got.Code != 422 || strings.Join(locations, " ") != c.faults {
			t.Errorf("%s %s: %d %s\nwant faults at %s", c.route, c.body, got.Code, got.Body, c.faults)
		}
		checkVoice(t, c.route, got)
	}
}

func checkVoice(t *testing.T, what string, got *httptest.ResponseRecorder) {
	t.Helper()
	var problem web.Problem
	if err := json.Unmarshal(got.Body.Bytes(), &problem); err != nil {
		t.Fatal(err)
	}
	for _, fault := range problem.Errors {
		if !strings.HasPrefix(fault.Message, "expected ") {
			t.Errorf("%s: %s: %s", what, fault.Location, fault.Message)
		}
	}
	if strings.Contains(got.Body.String(), "secret") {
		t.Errorf("%s: the response repeats a value: %s", what, got.Body)
	}
}

// TestNamesInBodiesMatchExactly checks that a name in another case is an unknown one.
func TestNamesInBodiesMatchExactly(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
	got := f.send("owner", "POST", "/webhook/create", `{"name":"kept","NAME":"other","Description":"ignored"}`)
	if got.Code != 201 || field(got, "name") != "kept" || !strings.Contains(got.Body.String(), `"description":null`) {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	free := `{"Name":1,"name":{"NAME":[2.50]}}`
	got = f.send("owner", "PUT", "/thread/exact", `{"project_id":"prj_test","metadata":`+free+`,"META":1,"User_Data":"1"}`)
	if got.Code != 200 || !strings.Contains(got.Body.String(), `"metadata":`+free) || !strings.Contains(got.Body.String(), `"user_data":null`) {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}

// TestLargeBodiesOfBadEntriesMakeSmallResponses sends bodies of 1 MB with as many faults as
// possible.
func TestLargeBodiesOfBadEntriesMakeSmallResponses(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
	for route, entry := range map[string]string{
		"POST /cli/devmode/eval": `{"create":[%s]}`,
		"PUT /session":           `{"agentIds":[%s]}`,
		"PUT /thread/none":       `{"user_data":[%s]}`,
		"POST /evalrun":          `{"id":[%s]}`,
		"POST /webhook/create":   `{"name":[%s]}`,
		"POST /oidc/clients":     `{"redirect_uris":[%s],"x":[]}`,
		"PUT /oidc/clients/none": `{"allowed_user_ids":[%s]}`,
	} {
		method, path, _ := strings.Cut(route, " ")
		for _, item := range []string{"{}", "0", `""`} {
			count := (1<<20 - len(entry)) / (len(item) + 1)
			f.wantSmall(method, path, fmt.Sprintf(entry, strings.TrimSuffix(strings.Repeat(item+",", count), ",")))
		}
	}
	var headers strings.Builder
	for i := 0; headers.Len() < 1<<20-100; i++ {
		fmt.Fprintf(&headers, `"%d":0,`, i)
	}
	f.wantSmall("POST", "/webhook/destination-create/none", `{"type":"url","config":{"headers":{`+headers.String()+`"a":0}}}`)
	entries := strings.TrimSuffix(strings.Repeat(`{},`, 1000), ",")
	f.wantSmall("POST", "/cli/devmode/eval", `{"create":[`+entries+`]}`)
}

// wantSmall checks that a bad body gets 422 on both faces, in a small response and with little
// memory.
func (f *fixture) wantSmall(method, path, body string) {
	f.t.Helper()
	for _, prefix := range []string{"", "/sdk"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := f.send("owner", method, prefix+path, body)
		runtime.ReadMemStats(&after)
		if got.Code != 422 || got.Body.Len() > 20_000 {
			f.t.Errorf("%s %s%s %.40s: %d, %d bytes: %.300s", method, prefix, path, body, got.Code, got.Body.Len(), got.Body)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 80<<20 {
			f.t.Errorf("%s %s%s %.40s: %d MB allocated", method, prefix, path, body, used>>20)
		}
	}
}

// TestFaultsBeyondTheListAreCounted checks that both faces say how many faults are not listed.
func TestFaultsBeyondTheListAreCounted(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
	body := `{"delete":[` + strings.TrimSuffix(strings.Repeat(`"a b",`, 150), ",") + `]}`
	var problem web.Problem
	var failure struct {
		Message string
		Details struct {
			Errors  []errs.Fault
			Omitted int `json:"errors_omitted"`
		}
	}
	for path, into := range map[string]any{"/cli/devmode/eval": &problem, "/sdk/cli/devmode/eval": &failure} {
		if err := json.Unmarshal(f.send("owner", "POST", path, body).Body.Bytes(), into); err != nil {
			t.Fatal(err)
		}
	}
	if len(problem.Errors) != 100 || problem.Omitted != 50 || !strings.Contains(problem.Detail, "50 more") {
		t.Errorf("%d listed, %d omitted: %s", len(problem.Errors), problem.Omitted, problem.Detail)
	}
	if len(failure.Details.Errors) != 100 || failure.Details.Omitted != 50 || failure.Message != problem.Detail {
		t.Errorf("SDK face: %d listed, %d omitted: %s", len(failure.Details.Errors), failure.Details.Omitted, failure.Message)
	}
}

// TestMisspeltParametersAreRefused checks names that are nearly known on the root face.
func TestMisspeltParametersAreRefused(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
	for query, faults := range map[string]string{
		"/thread?limti=1":                          "query.limti",
		"/thread?projectid=x&Limit=5":              "query.Limit query.projectid",
		"/thread?project_id=x":                     "query.project_id",
		"/thread?project-id=x&limit=many":          "query.limit query.project-id",
		"/thread?projId=x&orgid=x":                 "query.orgid",
		"/thread?metdata={}&derection=asc":         "query.derection query.metdata",
		"/cli/apikey?projectIds=x":                 "query.projectIds",
		"/oidc/clients/activity?day=1":             "query.day",
		"/thread?utm_source=x&_=1&sorted=1&page=2": "",
		"/oidc/clients/activity?date=1&dys=1":      "query.dys",
		"/sdk/thread?limti=1":                      "",
		"/cli/region?limti=1":                      "",
	} {
		got := f.send("owner", "GET", query, "")
		locations := locationsOf(got)
		slices.Sort(locations)
		if strings.Join(locations, " ") != faults || (got.Code == 200) != (faults == "") {
			t.Errorf("%s: %d %s", query, got.Code, got.Body)
		}
		if faults != "" && !strings.Contains(got.Body.String(), "did you mean `") {
			t.Errorf("%s: no suggestion: %s", query, got.Body)
		}
	}
}

// TestUncleanPathsAreNotRedirected checks paths that ServeMux would redirect.
func TestUncleanPathsAreNotRedirected(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
	for path, status := range map[string]int{
		"//thread": 404, "/cli//region": 404, "/./cli/region": 404, "/cli/../cli/region": 404, "/cli/region/..": 404,
		"/sdk//thread": 404, "/sdk": 404, "/cli/region/": 404, "/thread/": 404, "/thread/%2F%2F": 404, "/thread/%2e%2e": 404,
		"/cli/region": 200, "/sdk/cli/region": 200,
	} {
		for _, method := range []string{"GET", "HEAD"} {
			got := f.send("owner", method, path, "")
			if got.Code != status || !json.Valid(got.Body.Bytes()) || got.Header().Get("Location") != "" {
				t.Errorf("%s %s: %d %v %s", method, path, got.Code, got.Header(), got.Body)
			}
		}
	}
	long := f.send("owner", "GET", "/thread/"+strings.Repeat("x", 5000), "")
	if long.Code != 404 || long.Body.Len() > 500 {
		t.Errorf("a long id: %d %s", long.Code, long.Body)
	}
}

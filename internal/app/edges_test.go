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
		{
			"PUT /bucket/config/none", `{"public":"secret","ttl":-1,"cors":{"allowed_methods":["secret"],"max_age_seconds":"x"}}`,
			"body.cors.allowed_methods[0] body.cors.max_age_seconds body.public body.ttl",
		},
		{"PUT /bucket/config/none", `{"cors":{"allowed_origins":["https://a.example",7]}}`, "body.cors.allowed_origins[1]"},
		{
			"POST /resource/none/local", `{"resources":[{"type":"secret","name":"A"},{"type":"s3","name":"secret_"},{"type":"db","name":7}]}`,
			"body.resources[0].name body.resources[0].type body.resources[1].name body.resources[2].name",
		},
		{
			"DELETE /resource/none/local", `{"resources":[{"type":"db","name":"a"},{"type":"db","name":"a"},{"type":"secret","name":"b"}]}`,
			"body.resources[1].name body.resources[2].type",
		},
		{
			"POST /resource/none/local", `{"resources":[{"type":"secret","name":"my.bucket"},{"type":7,"name":"my.bucket"},{"type":[],"name":"a_"}]}`,
			"body.resources[0].type body.resources[1].type body.resources[2].type",
		},
		{
			"POST /oidc/clients", `{"name":"a","description":"b","homepage_url":"https://a.example","client_type":"secret",
				"redirect_uris":["com.example.app:/a","com.example.app:secret"],"grant_types":["client_credentials"],"audience":"https://a.example"}`,
			"body.client_type body.redirect_uris[1]",
		},
		{
			"POST /webhook/create", `{"name":"secret\u0000","description":7,"metadata":{"a":["b","\u0000"],"\u0000":"c"},"other":"\u0000"}`,
			"body.description body.metadata body.name body.other",
		},
		{"PUT /thread/none", `{"project_id":"a","metadata":{"a":"\u0000","a":"b"}}`, "body"},
		{"POST /resource/none/local/none/query", `{"query":7,"args":[1,{"secret":1}]}`, "body.args[1] body.query"},
		{"PUT /thread/none", `{"project_id":"a b","user_data":7}`, "body.project_id body.user_data"},
		{"POST /cli/project?limit=x", `{"name":" "}`, "body.name"},
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
		items := []string{"{}"} // which makes the longest list of faults
		if path == "/webhook/create" {
			items = append(items, "0", `""`)
		}
		for _, item := range items {
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
		"/thread/%ff": 400, "/thread/a%c3": 400, "/sdk/thread/%ff": 400, "/thread/%00": 400, "/thread/%C3%A4": 404, "/none/%ff": 400,
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

// TestRepeatedParametersAreRefused checks both faces. Unknown names may be repeated.
func TestRepeatedParametersAreRefused(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
	for path, faults := range map[string]string{
		"/thread?limit=1&limit=1":               "query.limit",
		"/thread?limit=1&offset=&limit=2&sort=": "query.limit",
		"/sdk/thread?limit=1&limit=2":           "query.limit",
		"/audit?since=2026-11-15&since=&start=": "query.since",
		"/thread?utm=1&utm=2":                   "",
	} {
		got := f.send("owner", "GET", path, "")
		if want := 200; faults == "" && got.Code != want || faults != "" && (got.Code != 422 || !strings.Contains(got.Body.String(), faults)) {
			t.Errorf("%s: %d %s", path, got.Code, got.Body)
		}
	}
}

// TestTimesOfListsMayBeDates walks all parameters that are bounds of a time.
func TestTimesOfListsMayBeDates(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
	hook := field(f.send("owner", "POST", "/webhook/create", `{"name":"a"}`), "id")
	for _, path := range []string{
		"/audit?since=%s", "/audit?until=%s", "/audit?start=%s", "/audit?end=%s", "/webhook/receipt-list/" + hook + "?since=%s",
		"/webhook/receipt-list/" + hook + "?until=%s", "/webhook/delivery-list/" + hook + "?since=%s",
		"/webhook/delivery-list/" + hook + "?until=%s", "/webhook/tail?follow=false&since=%s",
		"/webhook/tail/" + hook + "?follow=false&since=%s",
	} {
		for value, status := range map[string]int{
			"2026-11-15": 200, "2026-11-15T08:30:00": 200, "2026-11-15T08:30:00%2B01:00": 200, "2026-11-15T08:30:00.123Z": 200, "": 200,
			"2026-11-15t08:30:00z": 200, "2026-11-15t08:30:00": 200, "9999-12-31T23:59:59Z": 200, "9999-12-31T23:59:59-14:00": 422,
			"2026-11-15T08:30:00%2B24:00": 422, "2026-11-15T08:30:00%2B23:59": 200, "2026-11-15T08:30:00,5Z": 422, "2026-02-30": 422, "yesterday": 422, "2026-11": 422,
		} {
			if got := f.send("owner", "GET", fmt.Sprintf(path, value), ""); got.Code != status {
				t.Errorf("%s: %d %s", fmt.Sprintf(path, value), got.Code, got.Body)
			}
		}
	}
	for value, status := range map[string]int{"2026-01-15": 200, "2026-01-15T08:30:00Z": 200, "2026-02-30": 422, "x": 422, "": 422} {
		body := `{"since":"` + value + `","until":"2026-01-16","dry_run":true}`
		if got := f.send("owner", "POST", "/webhook/replay/"+hook, body); got.Code != status {
			t.Errorf("replay since %q: %d %s", value, got.Code, got.Body)
		}
	}
}

// TestWhatMovesWithoutItsVersionIsNeverNotModified reads things with the ETag that they have.
func TestWhatMovesWithoutItsVersionIsNeverNotModified(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
	key := field(f.send("owner", "POST", "/cli/apikey", `{"name":"a"}`), "id")
	hook := field(f.send("owner", "POST", "/webhook/create", `{"name":"a"}`), "id")
	var created struct{ Client struct{ ID string } }
	made := f.send("owner", "POST", "/oidc/clients", `{"name":"a","description":"b","homepage_url":"https://a.example"}`)
	if err := json.Unmarshal(made.Body.Bytes(), &created); err != nil {
		t.Fatal(err)
	}
	for path, status := range map[string]int{
		"/cli/apikey/" + key: 200, "/oidc/clients/" + created.Client.ID: 200, "/webhook/get/" + hook: 304,
	} {
		tag := f.send("owner", "GET", path, "").Header().Get("ETag")
		for _, prefix := range []string{"", "/sdk"} {
			r := httptest.NewRequest("GET", prefix+path, nil)
			r.Header.Set("Authorization", "Bearer "+f.keys["owner"])
			r.Header.Set("If-None-Match", tag)
			rec := httptest.NewRecorder()
			f.handler.ServeHTTP(rec, r)
			if rec.Code != status || tag == "" || rec.Header().Get("ETag") != tag {
				t.Errorf("%s%s with %s: %d %s", prefix, path, tag, rec.Code, rec.Body)
			}
		}
	}
}

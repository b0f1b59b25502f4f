package app

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

func TestRequestBodies(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
	for _, c := range []struct {
		name, body, contentType string
		status                  int
		code, says              string
		encoding                string
	}{
		{"good", `{"name":"a"}`, "application/json", 201, "", "", ""},
		{"no content type", `{"name":"a"}`, "", 201, "", "", ""},
		{"charset", `{"name":"a"}`, "application/json; charset=utf-8", 201, "", "", ""},
		{"nulls", `{"name":"a","expiresAt":null,"projectId":null,"orgId":null}`, "application/json", 201, "", "", ""},
		{"unknown and read-only fields", `{"name":"a","id":"key_x","colour":1}`, "application/json", 201, "", "", ""},
		{"last of two wins", `{"name":"","name":"a"}`, "application/json", 201, "", "", ""},
		{"form", `name=a`, "application/x-www-form-urlencoded", 415, "unsupported_media_type", "", ""},
		{"broken", `{"name":`, "application/json", 400, "malformed", "byte 8", ""},
		{"two values", `{"name":"a"}{}`, "application/json", 400, "malformed", "", ""},
		{"not UTF-8", "{\"name\":\"\xff\"}", "application/json", 400, "malformed", "UTF-8", ""},
		{"empty", ``, "application/json", 400, "malformed", "needs a JSON body", ""},
		{"not an object", `[]`, "application/json", 422, "invalid", "", ""},
		{"NUL", `{"name":"a\u0000"}`, "application/json", 422, "invalid", "U+0000", ""},
		{"escaped backslash", `{"name":"a\\u0000"}`, "application/json", 201, "", "", ""},
		{"all faults", `{"name":" ","expiresAt":"soon-secret"}`, "application/json", 422, "invalid", "expiresAt", ""},
		{"maximum size", `{"name":"a","note":"` + strings.Repeat("x", 1<<20-22) + `"}`, "application/json", 201, "", "", ""},
		{"too large", `{"name":"` + strings.Repeat("x", 1<<20) + `"}`, "application/json", 413, "too_large", "", ""},
		{"bidirectional name", `{"name":"a\u202eb"}`, "application/json", 422, "invalid", "body.name", ""},
		{"lower-case time", `{"name":"a","expiresAt":"2090-11-15t08:30:00z"}`, "application/json", 201, "", "", ""},
		{"time after the year 9999", `{"name":"a","expiresAt":"9999-12-31T23:59:59-14:00"}`, "application/json", 422, "invalid", "expiresAt", ""},
		{"offset of a day", `{"name":"a","expiresAt":"2090-11-15T08:30:00+24:00"}`, "application/json", 422, "invalid", "expiresAt", ""},
		{"identity", `{"name":"a"}`, "application/json", 201, "", "", "identity"},
		{"gzip", `{"name":"a"}`, "application/json", 415, "unsupported_media_type", "Content-Encoding", "gzip"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := httptest.NewRequest("POST", "/cli/apikey", strings.NewReader(c.body))
			req.Header.Set("Authorization", "Bearer "+f.keys["owner"])
			if c.contentType != "" {
				req.Header.Set("Content-Type", c.contentType)
			}
			if c.encoding != "" {
				req.Header.Set("Content-Encoding", c.encoding)
			}
			rec := httptest.NewRecorder()
			f.handler.ServeHTTP(rec, req)
			if rec.Code != c.status || c.code != "" && field(rec, "code") != c.code ||
				!strings.Contains(rec.Body.String(), c.says) {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
			if bytes.Contains(rec.Body.Bytes(), []byte("soon-secret")) {
				t.Errorf("the response echoes a value: %s", rec.Body)
			}
		})
	}
}

func TestAPIKeyOnBothFaces(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
	bare := f.send("owner", "POST", "/cli/apikey", `{"name":"a"}`)
	sdk := f.send("owner", "POST", "/sdk/cli/apikey", `{"name":"a"}`)
	var enveloped struct {
		Success bool
		Data    struct{ ID, Value string }
	}
	err := json.Unmarshal(sdk.Body.Bytes(), &enveloped)
	if err != nil || sdk.Code != 201 || bare.Code != 201 || len(enveloped.Data.Value) != 52 {
		t.Fatalf("%d %s and %d %s", bare.Code, bare.Body, sdk.Code, sdk.Body)
	}
	id := field(bare, "id")
	one := f.send("owner", "GET", "/cli/apikey/"+id, "")
	same := f.send("owner", "GET", "/sdk/cli/apikey/"+id, "")
	if strings.TrimSpace(same.Body.String()) != `{"success":true,"data":`+strings.TrimSpace(one.Body.String())+`}` ||
		one.Header().Get("ETag") == "" || one.Header().Get("ETag") != same.Header().Get("ETag") {
		t.Errorf("%s and %s", one.Body, same.Body)
	}
	if got := f.send("owner", "DELETE", "/cli/apikey/"+id, ""); got.Code != 204 || got.Body.Len() != 0 {
		t.Errorf("deleted: %d %s", got.Code, got.Body)
	}
	got := f.send("owner", "DELETE", "/sdk/cli/apikey/"+enveloped.Data.ID, "")
	if got.Code != 200 || strings.TrimSpace(got.Body.String()) != `{"success":true,"data":1}` {
		t.Errorf("deleted on the SDK face: %d %s", got.Code, got.Body)
	}
	got = f.send("owner", "DELETE", "/sdk/cli/project/prj_test", "")
	if strings.TrimSpace(got.Body.String()) != `{"success":true}` {
		t.Errorf("deleted a project on the SDK face: %d %s", got.Code, got.Body)
	}
}

// TestQueryParameters checks that a wrong value is refused with the parameter's name, and a
// malformed query as a whole.
func TestQueryParameters(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
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
		"projectId=%ff":                     {400, nil},
		"nobody=%ff":                        {400, nil},
		"limit":                             {200, nil},
		"cursor&limit&offset":               {200, nil},
		"limit&limit=1":                     {422, []string{"query.limit"}},
		"limit=-1&offset":                   {422, []string{"query.limit"}},
		"limit=" + strings.Repeat("9", 400): {422, []string{"query.limit"}},
	} {
		got := f.send("owner", "GET", "/cli/apikey?"+query, "")
		if got.Code != c.status {
			t.Errorf("?%.60s: %d %s", query, got.Code, got.Body)
		}
		if locations := locationsOf(got); !slices.Equal(locations, c.faults) {
			t.Errorf("?%.60s: faults at %v, want %v", query, locations, c.faults)
		}
	}
}

// TestAllFaultsAreReported checks that a response lists all faults of a body, of the schema and of
// the rules, and echoes no value.
func TestAllFaultsAreReported(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
	for _, c := range []struct{ path, body, faults string }{
		{"/cli/apikey", `{"name":"QQQ","expiresAt":"QQQ","projectId":"QQQ QQQ"}`, "body.expiresAt body.projectId"},
		{"/cli/apikey", `{"name":" ","expiresAt":"QQQ","projectId":""}`, "body.expiresAt body.name body.projectId"},
		{"/cli/apikey", `{"name":7,"expiresAt":["QQQ"],"orgId":{}}`, "body.expiresAt body.name body.orgId"},
		{
			"/cli/apikey", `{"name":" ","expiresAt":"2020-01-01T00:00:00Z","scopes":["QQQ:read"]}`,
			"body.expiresAt body.name body.scopes[0]",
		},
		{"/oidc/org/members", `{"email":"QQQ","role":"QQQ","first_name":9}`, "body.email body.first_name body.role"},
		{"/oidc/org/members", `{"email":"QQQ@QQQ@QQQ","role":"viewer"}`, "body.email"},
		{
			"/oidc/clients", `{"name":"","redirect_uris":["QQQ"],"scopes":["QQQ"],"homepage_url":7}`,
			"body.description body.homepage_url body.name body.redirect_uris[0] body.scopes[0]",
		},
		{"/cli/project", `{"name":"\t "}`, "body.name"},
	} {
		got := f.send("owner", "POST", c.path, c.body)
		locations := locationsOf(got)
		slices.Sort(locations)
		if got.Code != 422 || strings.Join(locations, " ") != c.faults || strings.Contains(got.Body.String(), "QQQ") {
			t.Errorf("%s: %d %s, want %s", c.body, got.Code, got.Body, c.faults)
		}
	}
}

func locationsOf(rec *httptest.ResponseRecorder) (locations []string) {
	var problem struct{ Errors []struct{ Location string } }
	_ = json.Unmarshal(rec.Body.Bytes(), &problem) // a list has no errors
	for _, f := range problem.Errors {
		locations = append(locations, f.Location)
	}
	return locations
}

package resource

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/idempotency"
	"steward/internal/sdk"
	"steward/internal/web"
)

// api serves the routes of this package to the caller of a fixture.
func (f *fixture) api() http.Handler {
	h := &Handler{Manager: f.Manager, Accounts: &account.Store{DB: f.Manager.Store.DB}}
	table := []web.Route{
		web.On("GET /cli/region", "", auth.ReadRegions, 200, "", h.Regions),
		web.On("GET /resource", "", auth.ReadResources, 200, "", h.All),
		web.On("GET /resource/{orgId}/{region}", "", auth.ReadResources, 200, "", h.List),
		web.On("POST /resource/{orgId}/{region}", "", auth.WriteResources, 201, "", h.Create),
		web.On("DELETE /resource/{orgId}/{region}", "", auth.WriteResources, 204, "", h.Delete),
		web.On("GET /resource/{orgId}/{region}/{name}/tables", "", auth.ReadResources, 200, "", h.Tables),
		web.On("POST /resource/{orgId}/{region}/{name}/query", "", auth.WriteResources, 200, "", h.Query),
		web.On("GET /resource/{orgId}/{region}/{name}/keys", "", auth.ReadResources, 200, "", h.Keys),
		web.On("GET /resource/{orgId}/{region}/{name}/value", "", auth.WriteResources, 200, "", h.Value),
		web.On("PUT /resource/{orgId}/{region}/{name}/value", "", auth.WriteResources, 200, "", h.SetValue),
		web.On("DELETE /resource/{orgId}/{region}/{name}/value", "", auth.WriteResources, 204, "", h.DeleteValue),
		web.On("POST /resource/{orgId}/{region}/{name}/rotate", "", auth.WriteResources, 200, "", h.Rotate),
	}
	guard := func(_ web.Route, _ http.ResponseWriter, r *http.Request) *http.Request {
		return r.WithContext(auth.With(r.Context(), f.caller))
	}
	api := web.NewAPI(table, guard, (&idempotency.Store{DB: f.Store.DB, Ring: f.Store.Ring, Now: f.Store.Now}).Serve)
	mux := http.NewServeMux()
	mux.Handle("/", api)
	mux.Handle(sdk.Prefix+"/", sdk.Mount(api))
	return mux
}

// send sends a request, with an Idempotency-Key if one is given, and checks the status.
func (f *fixture) send(status int, request, body string, key ...string) string {
	f.t.Helper()
	method, path, _ := strings.Cut(request, " ")
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if len(key) > 0 {
		r.Header["Idempotency-Key"] = key
	}
	rec := httptest.NewRecorder()
	f.api().ServeHTTP(rec, r)
	if rec.Code != status {
		f.t.Fatalf("%s %s: %d %s, want %d", request, body, rec.Code, rec.Body, status)
	}
	return strings.TrimSpace(rec.Body.String())
}

// keysOf returns the sorted names of a JSON object at a path of keys, where [0] is the first of a list.
func keysOf(t testing.TB, text string, path ...string) []string {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	for _, key := range path {
		if list, ok := value.([]any); ok {
			value = list[int(key[0]-'0')]
			continue
		}
		value = value.(map[string]any)[key]
	}
	var names []string
	for name := range value.(map[string]any) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

const (
	local    = "/resource/org_1/local"
	allTypes = `{"resources":[{"type":"db","name":"x","description":"d"},{"type":"kv","name":"x"},{"type":"s3","name":"xyz"}]}`
)

func TestCreatedEntriesHaveTheFieldsOfTheirType(t *testing.T) {
	each(t, func(f *fixture) {
		created := f.send(201, "POST "+local, allTypes)
		provisioned := []string{"description", "engine", "env", "internal", "name", "password", "type", "url", "username"}
		bucket := []string{
			"access_key", "bucket_name", "bucket_type", "cname", "description", "endpoint", "env", "internal", "name", "region",
			"secret_key", "type",
		}
		for i, want := range [][]string{provisioned, provisioned, bucket} {
			if got := keysOf(f.t, created, "created", string(rune('0'+i))); !slices.Equal(got, want) {
				f.t.Errorf("entry %d has %v, want %v", i, got, want)
			}
		}
		if want := []string{"description", "region"}; !slices.Equal(keysOf(f.t, f.send(200, "GET /cli/region", ""), "0"), want) {
			f.t.Error("a region has other fields")
		}
	})
}

// TestCredentialsNeedTheRightToWrite covers viewers, and members whose scopes let them read only.
func TestCredentialsNeedTheRightToWrite(t *testing.T) {
	each(t, func(f *fixture) {
		f.send(201, "POST "+local, allTypes)
		var secrets []string
		for _, password := range f.listed() {
			secrets = append(secrets, password)
		}
		owner := f.send(200, "GET "+local, "")
		if !strings.Contains(owner, `"redis":{"url":"file://kv_`) {
			f.t.Errorf("no redis: %s", owner)
		}
		for _, request := range []string{"GET " + local, "GET /resource", "GET /sdk/resource"} {
			f.caller.Scopes = []string{"resource:read", "resource:write"}
			if writer := f.send(200, request, ""); !strings.Contains(writer, secrets[0]) {
				f.t.Errorf("%s shows no secret: %s", request, writer)
			}
			f.caller.Scopes = []string{"resource:read"}
			reader := f.send(200, request, "")
			f.caller.Scopes = nil
			f.caller.Role = auth.Viewer
			if viewer := f.send(200, request, ""); viewer != reader {
				f.t.Errorf("%s: the scope resource:read shows %s, and a viewer sees %s", request, reader, viewer)
			}
			f.caller.Role = auth.Owner
			for _, secret := range secrets {
				if strings.Contains(reader, secret) {
					f.t.Errorf("%s shows a secret: %s", request, reader)
				}
			}
			if strings.Count(reader, `"password":null,"url":null`) != 2 || strings.Count(reader, `"env":{}`) != 3 ||
				strings.Contains(reader, `"redis"`) {
				f.t.Errorf("%s: %s", request, reader)
			}
		}
	})
}

func TestFaultsAndUnknownPlaces(t *testing.T) {
	each(t, func(f *fixture) {
		f.send(404, "GET /resource/org_2/local", "")
		f.send(404, "GET /resource/org_1/mars", "")
		f.send(404, "POST /resource/org_1/mars", allTypes)
		got := f.send(422, "POST "+local, `{"resources":[{"type":"db","name":"pg_a"},{"type":"kv","name":"B"},{"type":"kv","name":"c"},{"type":"kv","name":"c"}]}`)
		for _, want := range []string{"body.resources[0].name", "body.resources[1].name", "body.resources[3].name"} {
			if !strings.Contains(got, want) {
				f.t.Errorf("%s does not say %s", got, want)
			}
		}
		f.send(422, "POST "+local, `{"resources":[`+strings.Repeat(`{"type":"db"},`, 100)+`{"type":"db"}]}`)
		f.Regions[0].DB = nil
		if got := f.send(422, "POST "+local, `{"resources":[{"type":"db"}]}`); !strings.Contains(got, "no engine for db in region local") {
			f.t.Error(got)
		}
		f.send(404, "DELETE "+local, `{"resources":[{"type":"db","name":"none"}]}`)
	})
}

func TestListOverAllTypesIsSortedAndCutAsOne(t *testing.T) {
	each(t, func(f *fixture) {
		f.Regions = append(f.Regions, Region{Region: "south", DB: f.dbs, KV: f.kvs})
		f.send(201, "POST /resource/org_1/south", `{"resources":[{"type":"kv","name":"a"},{"type":"db","name":"e"}]}`)
		f.now = f.now.Add(1e9)
		f.send(201, "POST "+local, `{"resources":[{"type":"db","name":"b"},{"type":"s3","name":"ccc"},{"type":"kv","name":"d"}]}`)
		for query, want := range map[string]string{
			"": "ccc|b e|a d", "type=all": "ccc|b e|a d", "type=db": "|b e|", "type=kv": "||a d", "type=s3": "ccc||",
			"limit=2": "|b|a", "limit=2&offset=2": "ccc||d", "offset=9": "||", "limit=0": "||", "name=CCC": "ccc||",
			"limit=1&direction=desc": "|e|", "limit=2&sort=created": "|e|a", "limit=3&sort=region": "ccc|b|d",
			"limit=1&sort=region&direction=desc": "|e|",
		} {
			var list Placed
			f.must(json.Unmarshal([]byte(f.send(200, "GET /resource?"+query, "")), &list))
			var s3, dbs, kvs []string
			for _, e := range list.S3 {
				s3 = append(s3, e.BucketName)
			}
			for _, e := range list.DB {
				dbs = append(dbs, e.Name)
			}
			for _, e := range list.KV {
				kvs = append(kvs, e.Name)
			}
			got := strings.Join([]string{strings.Join(s3, " "), strings.Join(dbs, " "), strings.Join(kvs, " ")}, "|")
			if got != want {
				f.t.Errorf("%s: %s, want %s", query, got, want)
			}
		}
	})
}

func TestContentsOfDatabasesAndStores(t *testing.T) {
	each(t, func(f *fixture) {
		f.send(201, "POST "+local, allTypes)
		if got := f.send(200, "GET "+local+"/x/tables", ""); !strings.HasPrefix(got, `[{"schema":"main","name":"x"`) {
			f.t.Error(got)
		}
		want := `{"success":true,"data":{"tables":[{"table_name":"x","columns":[{"name":"a","data_type":"integer","is_nullable":false,"is_primary_key":true}]}]}}`
		if got := f.send(200, "GET /sdk"+local+"/x/tables", ""); got != want {
			f.t.Error(got)
		}
		args := `{"query":"q","args":[null,true,9007199254740993,1.5,1e3,"t",{"base64":"AP8="}]}`
		want = `{"columns":["a","b","c","d","e","f","g"],"rows":[[null,true,9007199254740993,1.5,1000,"t",{"base64":"AP8="}]],"truncated":false}`
		if got := f.send(200, "POST "+local+"/x/query", args); got != want {
			f.t.Error(got)
		}
		want = `{"success":true,"data":{"columns":[{"name":"a","type":""}],"rows":[{"a":1}],"rowCount":1,"truncated":false}}`
		if got := f.send(200, "POST /sdk"+local+"/x/query", `{"query":"q","args":[1]}`, "key"); got != want {
			f.t.Error(got)
		}
		if got := f.send(422, "POST "+local+"/x/query", `{"query":"q"}`); !strings.Contains(got, "no arguments for q") {
			f.t.Error(got)
		}
		for _, wrong := range []string{`[[]]`, `[{}]`, `[{"base64":"%"}]`, `[{"base64":"","a":1}]`, `1`} {
			f.send(422, "POST "+local+"/x/query", `{"query":"q","args":`+wrong+`}`)
		}
		f.send(422, "POST "+local+"/x/query", `{"query":""}`)
		if got := f.send(200, "GET "+local+"/x/keys?prefix=p&cursor=c", ""); !strings.Contains(got, `[\"x\",\"p\",\"c\",100,false]`) {
			f.t.Error(got)
		}
		if got := f.send(200, "GET "+local+"/x/keys?values=true&limit=5", ""); !strings.Contains(got, `[\"x\",\"\",\"\",5,true]`) {
			f.t.Error(got)
		}
		for _, limit := range []string{"0", "1001", "-1", "x"} {
			f.send(422, "GET "+local+"/x/keys?limit="+limit, "")
		}
		for _, path := range []string{"/none/tables", "/none/keys", "/xyz/keys", "/xyz/tables"} {
			f.send(404, "GET "+local+path, "")
		}
	})
}

func TestViewersSeeKeysWithoutValues(t *testing.T) {
	each(t, func(f *fixture) {
		f.send(201, "POST "+local, `{"resources":[{"type":"kv","name":"x"}]}`)
		f.caller.Role = auth.Viewer
		f.send(200, "GET "+local+"/x/keys", "")
		f.send(403, "GET "+local+"/x/keys?values=true", "")
	})
}

func TestValuesThatJSONCannotHave(t *testing.T) {
	rows := Rows{Rows: [][]any{{math.NaN(), math.Inf(-1), []byte{0}}}}.bounded()
	got, err := json.Marshal(rows.Rows)
	if want := `[["NaN","-Inf",{"base64":"AA=="}]]`; string(got) != want || err != nil {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

func TestRotateNeedsATypeIfThereAreSeveral(t *testing.T) {
	each(t, func(f *fixture) {
		f.send(201, "POST "+local, allTypes)
		before := f.listed()
		f.send(422, "POST "+local+"/x/rotate", "")
		f.send(404, "POST "+local+"/x/rotate?type=s3", "")
		f.send(404, "POST "+local+"/none/rotate", "")
		f.send(422, "POST "+local+"/x/rotate?type=other", "")
		for path, named := range map[string]Named{
			"/x/rotate?type=db": {Type: DB, Name: "x"}, "/x/rotate?type=kv": {Type: KV, Name: "x"}, "/xyz/rotate": {Type: S3, Name: "xyz"},
		} {
			got := f.send(200, "POST "+local+path, "")
			now := f.listed()[named]
			if now == before[named] || !strings.Contains(got, now) || !strings.HasPrefix(got, `{"type":"`+string(named.Type)) {
				f.t.Errorf("%s: %s", path, got)
			}
		}
		f.checkAgreement()
	})
}

// TestIdempotencyKeyCreatesOnce also shows that a request does not hold the database while an engine
// works: on SQLite it could not write anything else.
func TestIdempotencyKeyCreatesOnce(t *testing.T) {
	each(t, func(f *fixture) {
		f.dbs.set(func(verb string, _ *Provisioned) error {
			if verb != "create" {
				return nil
			}
			return f.Store.DB.Write(f.t.Context(), func(tx *db.Tx) error { return tx.Invalidate(Cache) })
		})
		body := `{"resources":[{"type":"db"},{"type":"kv"},{"type":"s3"}]}`
		first := f.send(201, "POST "+local, body, "key")
		if again := f.send(201, "POST "+local, body, "key"); again != first || len(f.listed()) != 3 {
			f.t.Errorf("repeated: %s, first %s; there are %d", again, first, len(f.listed()))
		}
		f.dbs.set(always("create", errDown))
		f.send(503, "POST "+local, `{"resources":[{"type":"db","name":"x"}]}`, "other")
		f.dbs.set(nil)
		f.send(201, "POST "+local, `{"resources":[{"type":"db","name":"x"}]}`, "other")
		rotated := f.send(200, "POST "+local+"/x/rotate", "", "key")
		if again := f.send(200, "POST "+local+"/x/rotate", "", "key"); again != rotated {
			f.t.Errorf("repeated: %s, first %s", again, rotated)
		}
		f.checkAgreement()
	})
}

// TestEngineErrorsHaveNoSecrets: what a client and the log get of an error of an engine.
func TestEngineErrorsHaveNoSecrets(t *testing.T) {
	each(t, func(f *fixture) {
		var password string
		f.dbs.set(func(verb string, p *Provisioned) error {
			password = p.Password
			return errs.New(errs.Internal, "broken")
		})
		got := f.send(500, "POST "+local, `{"resources":[{"type":"db","name":"x"}]}`)
		if strings.Contains(got, password) || password == "" {
			f.t.Error(got)
		}
	})
}

package app

import (
	"encoding/json"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/web"
)

// ownForm lists the routes whose values have another form in an envelope, with that form. The form of
// webhook receipts differs for texts only.
var ownForm = map[string]func(bare string) string{
	"GET /cli/auth/user":                    func(bare string) string { return strings.ReplaceAll(bare, ":null", `:""`) },
	"DELETE /cli/apikey/{id}":               func(string) string { return "1" },
	"GET /webhook/analytics/org":            func(bare string) string { return `{"analytics":` + bare + `}` },
	"GET /webhook/analytics/org/timeseries": func(bare string) string { return `{"timeseries":` + bare + `}` },
	"DELETE /resource/{orgId}/{region}": func(string) string {
		gone := func(kind, name string) string { return `{"type":"` + kind + `","name":"` + name + `","env_keys":[]}` }
		return `{"deleted":[` + gone("s3", "walk-bucket") + `,` + gone("db", "walk") + `,` + gone("kv", "walk") + `]}`
	},
	"POST /webhook/destination-create/{webhookId}":                asURL,
	"GET /webhook/destination-list/{webhookId}":                   asURL,
	"PUT /webhook/destination-update/{webhookId}/{destinationId}": asURL,

	"GET /cli/project":  nil, // with their organization
	"GET /session":      nil, // with the names that SDKs know
	"GET /session/{id}": nil,
	"POST /session":     nil,
	"PUT /session":      nil,
	"GET /resource/{orgId}/{region}/{name}/tables": nil, // columns with the names that SDKs know
	"POST /resource/{orgId}/{region}/{name}/query": nil, // rows as objects
}

// asURL returns destinations with the only type that SDKs know.
func asURL(bare string) string { return strings.ReplaceAll(bare, `"type":"http"`, `"type":"url"`) }

// answer is a response of the walk.
type answer struct {
	step string
	r    web.Route
	*httptest.ResponseRecorder
}

// answers makes the requests of the walk under a prefix. If twice is true, it makes each GET on the
// other face too and then again, and checks that the response is the same.
func (f *fixture) answers(d *db.DB, prefix string, twice bool) (all []answer) {
	f.walk(d, prefix, func(request, path, body string) *httptest.ResponseRecorder {
		method, _, _ := strings.Cut(request, " ")
		r, known := routeOf(f.routes, method, path)
		if !known {
			return f.send("owner", method, path, body)
		}
		got := f.send("owner", method, prefix+path, body)
		all = append(all, answer{request, r, got})
		if twice && method == "GET" {
			f.send("owner", method, "/sdk"+path, body)
			again := f.send("owner", method, path, body)
			if again.Body.String() != got.Body.String() && r.Path != "/storage/presign/{bucket}" {
				f.t.Errorf("%s: the root face answers\n%s, and after a request to the SDK face\n%s", request, got.Body, again.Body)
			}
		}
		return got
	})
	return all
}

// TestSDKFaceWrapsWhatTheRootFaceAnswers uses every route on each face of an installation of its own,
// and compares the bodies byte by byte, apart from what is random or a time.
func TestSDKFaceWrapsWhatTheRootFaceAnswers(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	other := dbtest.Open(t, d.Dialect())
	bare := newFixture(t, d, nil).answers(d, "", true)
	enveloped := newFixture(t, other, nil).answers(other, "/sdk", false)
	if len(bare) != len(enveloped) {
		t.Fatalf("%d answers of the root face, %d of the SDK face", len(bare), len(enveloped))
	}
	for i, b := range bare {
		e := enveloped[i]
		want := fixed(envelope(b))
		if got := fixed(e.Body.String()); want != "" && got != want {
			t.Errorf("%s:\n%s\non the SDK face, want\n%s", b.step, got, want)
		}
		if b.Code == 204 {
			b.Code = 200
		}
		if b.Code != e.Code {
			t.Errorf("%s: status %d on the root face, %d on the SDK face", b.step, b.Code, e.Code)
		}
	}
}

// envelope returns what the SDK face answers instead of a response of the root face, or "" for a form
// that is tested with the SDKs alone.
func envelope(bare answer) string {
	body := strings.TrimSuffix(bare.Body.String(), "\n")
	if bare.Code >= 400 {
		return failureOf(bare)
	}
	switch bare.Header().Get("Content-Type") {
	case "application/octet-stream", "text/event-stream", "application/x-ndjson":
		return bare.Body.String()
	}
	form, own := ownForm[bare.r.Pattern()]
	switch {
	case own && form == nil:
		return ""
	case own:
		body = form(body)
	case body == "":
		return `{"success":true}` + "\n"
	}
	return `{"success":true,"data":` + body + "}\n"
}

// failureOf returns the envelope of an error.
func failureOf(bare answer) string {
	var p web.Problem
	if err := json.Unmarshal(bare.Body.Bytes(), &p); err != nil || len(p.Errors) > 0 {
		return ""
	}
	code, _ := json.Marshal(p.Code)
	detail, _ := json.Marshal(p.Detail)
	return `{"success":false,"code":` + string(code) + `,"message":` + string(detail) + "}\n"
}

var (
	named = regexp.MustCompile(`whsec_[A-Za-z0-9+/=]+|\b(bucket|db|kv)-[a-z0-9]{20}\b`)
	word  = regexp.MustCompile(`[A-Za-z0-9_-]{20,}`)
	clock = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z|\d{8}T\d{6}Z`)
	took  = regexp.MustCompile(`"duration_ms":\d+`)
	mixed = regexp.MustCompile(`\d|[a-z].*[A-Z]|[A-Z].*[a-z]`)
)

// fixed returns a body with all times and durations replaced, and all long words of several kinds
// of characters, which are ids and secrets.
func fixed(body string) string {
	body = clock.ReplaceAllString(body, "TIME")
	body = took.ReplaceAllString(body, `"duration_ms":0`)
	body = named.ReplaceAllString(body, "WORD")
	return word.ReplaceAllStringFunc(body, func(w string) string {
		if mixed.MatchString(w) {
			return "WORD"
		}
		return w
	})
}

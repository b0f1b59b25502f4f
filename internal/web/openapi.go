package web

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"steward/internal/page"

	"github.com/danielgtaylor/huma/v2"
)

// docsPage reads /openapi.json and shows it; it loads nothing from elsewhere.
//
//go:embed docs.html
var docsPage []byte

const schemaPrefix = "#/components/schemas/"

// area is a part of the API: a tag of the document, and the beginnings of the paths that belong to it.
type area struct {
	name, about string
	paths       []string
}

// areas are in the order of the document. A path belongs to the first area that has its beginning.
var areas = []area{
	{"Account", "Who calls, and the organization's projects.", []string{"/cli/auth", "/cli/organization", "/cli/project"}},
	{"Members", "The users of the organization and their roles.", []string{"/oidc/org"}},
	{"OAuth", "OAuth and OIDC applications, consents, activity, scopes and signing keys.", []string{"/oidc"}},
	{"API keys", "Keys for this API.", []string{"/cli/apikey"}},
	{"Object storage", "Objects, presigned URLs, usage and configuration of buckets.", []string{"/storage", "/bucket"}},
	{"Resources", "Regions, and the databases, buckets and key-value stores in them.", []string{"/cli/region", "/resource"}},
	{"Threads", "Conversation threads and sessions of agents.", []string{"/thread", "/session"}},
	{"Evaluations", "Evaluations and their runs.", []string{"/cli/eval", "/cli/eval-run", "/cli/devmode", "/evalrun"}},
	{"Webhooks", "Endpoints, destinations, receipts, deliveries and analytics.", []string{"/webhook"}},
	{"Audit", "Who did what.", []string{"/audit"}},
	{"Other", "What belongs to no other area.", []string{""}},
}

func areaOf(path string) area {
	within := func(start string) bool { return strings.HasPrefix(path+"/", start+"/") }
	for _, a := range areas {
		if slices.ContainsFunc(a.paths, within) {
			return a
		}
	}
	return areas[len(areas)-1]
}

// tags are the areas that a document's routes belong to.
func tags(paths map[string]*huma.PathItem) []*huma.Tag {
	used := map[string]bool{}
	for path := range paths {
		used[areaOf(path).name] = true
	}
	var out []*huma.Tag
	for _, a := range areas {
		if used[a.name] {
			out = append(out, &huma.Tag{Name: a.name, Description: a.about})
		}
	}
	return out
}

// document is the frame of the OpenAPI document; the routes fill it.
func document() huma.Config {
	config := huma.DefaultConfig("Steward", Version+".0.0")
	config.CreateHooks = nil // they would add $schema to bodies and a Link header
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.AllowAdditionalPropertiesByDefault = true
	config.Components.Schemas = huma.NewMapRegistry(schemaPrefix, schemaName)
	config.Info.Description = "A self-hosted control plane: OAuth applications, API keys, object storage, regional resources, threads, " +
		"evaluations and webhooks of an organization."
	config.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	config.Servers = []*huma.Server{{URL: "/"}}
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key": {Type: "http", Scheme: "bearer", Description: "An API key (sk_…) or an access token of this installation's OIDC provider"},
	}
	config.Security = []map[string][]string{{"key": {}}}
	return config
}

// schemaName puts the package before the type, since several areas may have a type of the same name.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	pkg := t.PkgPath()[strings.LastIndex(t.PkgPath(), "/")+1:]
	if pkg == "" || strings.HasPrefix(strings.ToLower(name), pkg) {
		return name
	}
	return strings.ToUpper(pkg[:1]) + pkg[1:] + name
}

var wordBreak = regexp.MustCompile(`[^A-Za-z0-9]+`)

// headersOf documents what Write tells of a value in headers.
func headersOf(value reflect.Type) map[string]*huma.Param {
	text, number := &huma.Schema{Type: "string"}, &huma.Schema{Type: "integer"}
	switch {
	case value.Implements(reflect.TypeFor[page.Versioned]()):
		return map[string]*huma.Param{"ETag": {Description: "The version, for If-Match and If-None-Match", Schema: text}}
	case value.Implements(reflect.TypeFor[headed]()):
		return map[string]*huma.Param{
			"X-Total-Count": {Description: "The size of the whole list; left out when it is too dear to count", Schema: number},
			"Link":          {Description: "Where other pages start: first, prev, next, last", Schema: text},
		}
	}
	return nil
}

// idempotencyParam documents the header that each POST takes without its handler knowing.
func idempotencyParam() *huma.Param {
	shortest, longest := 1, 255
	return &huma.Param{
		Name: "Idempotency-Key", In: "header",
		Description: "The same key with the same body gets the first answer again, for 24 hours; with another body it is refused",
		Schema:      &huma.Schema{Type: "string", MinLength: &shortest, MaxLength: &longest},
	}
}

// operation is the document's entry for a route.
func operation(r Route) huma.Operation {
	op := huma.Operation{
		Method: r.Method, Path: r.Path, Summary: r.Summary, DefaultStatus: r.Status,
		MaxBodyBytes: -1, // checkedBody has bounded it; huma would refuse a body of exactly the limit
		OperationID:  strings.ToLower(r.Method) + wordBreak.ReplaceAllString(strings.TrimSuffix(r.Path, "}"), "-"),
		Tags:         []string{areaOf(r.Path).name},
		Description:  "Needs the permission to " + r.Permission.Name + ".",
	}
	if r.Method == http.MethodPost {
		op.Parameters = []*huma.Param{idempotencyParam()}
	}
	return op
}

// Document gives the OpenAPI document of the mounted table, with what huma leaves untrue put right.
func (a *API) Document() ([]byte, error) {
	doc := a.huma.OpenAPI()
	doc.Tags = tags(doc.Paths)
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	mend(tree)
	components, _ := tree["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	for name, schema := range schemas {
		allowNil(schema.(map[string]any), doc.Components.Schemas.TypeFromRef(schemaPrefix+name))
	}
	return json.Marshal(tree)
}

// mend adds null to the enums of nullable fields, which huma leaves out, and removes a word that huma alone knows.
func mend(node any) {
	switch n := node.(type) {
	case map[string]any:
		enum, isEnum := n["enum"].([]any)
		if types, ok := n["type"].([]any); ok && isEnum && slices.Contains(types, any("null")) {
			n["enum"] = append(enum, nil)
		}
		if _, isText := n["patternDescription"].(string); isText {
			delete(n, "patternDescription")
		}
		for _, child := range n {
			mend(child)
		}
	case []any:
		for _, child := range n {
			mend(child)
		}
	}
}

// allowNil adds null to the fields of a struct that are pointers to objects and always sent; huma documents them as the object alone.
func allowNil(schema map[string]any, t reflect.Type) {
	properties, _ := schema["properties"].(map[string]any)
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		property, _ := properties[name].(map[string]any)
		ref, isRef := property["$ref"]
		if isRef && f.Type.Kind() == reflect.Pointer && !strings.Contains(options, "omitempty") {
			delete(property, "$ref")
			property["anyOf"] = []any{map[string]any{"$ref": ref}, map[string]any{"type": "null"}}
		}
	}
}

// ServeDocs mounts GET /openapi.json and GET /docs.
func (a *API) ServeDocs() error {
	doc, err := a.Document()
	if err != nil {
		return err
	}
	a.Handle("GET /openapi.json", static("application/json", doc, ""))
	a.Handle("GET /docs", static("text/html; charset=utf-8", docsPage,
		"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"))
	return nil
}

func static(contentType string, body []byte, policy string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		if policy != "" {
			w.Header().Set("Content-Security-Policy", policy)
		}
		w.Write(body)
	})
}

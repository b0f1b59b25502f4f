package web

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/auth"
	"steward/internal/page"
)

// docsPage renders /openapi.json. It loads nothing from other hosts.
//
//go:embed docs.html
var docsPage []byte

// docsPolicy is the Content-Security-Policy of docsPage.
const docsPolicy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

const schemaPrefix = "#/components/schemas/"

// area is a part of the API: a tag of the document and the prefixes of its paths.
type area struct {
	name, description string
	prefixes          []string
}

// areas lists the areas in the order of the document. A path belongs to the first area with a
// prefix of it.
var areas = []area{
	{"Account", "The current user, organizations and projects.", []string{"/cli/auth", "/cli/organization", "/cli/project"}},
	{"Members", "Members of the organization and their roles.", []string{"/oidc/org"}},
	{"OAuth", "OAuth 2.0 and OpenID Connect clients, consents, activity, scopes and signing keys.", []string{"/oidc"}},
	{"API keys", "API keys.", []string{"/cli/apikey"}},
	{"Object storage", "Objects, presigned URLs, usage and configuration of buckets.", []string{"/storage", "/bucket"}},
	{"Resources", "Regions and their databases, buckets and key-value stores.", []string{"/cli/region", "/resource"}},
	{"Threads", "Conversation threads and sessions of agents.", []string{"/thread", "/session"}},
	{"Evaluations", "Evaluations and their runs.", []string{"/cli/eval", "/cli/eval-run", "/cli/devmode", "/evalrun"}},
	{"Webhooks", "Webhooks, destinations, receipts, deliveries and analytics.", []string{"/webhook"}},
	{"Audit", "Audit log.", []string{"/audit"}},
	{"Other", "Other operations.", []string{""}},
}

func areaOf(path string) area {
	within := func(prefix string) bool { return strings.HasPrefix(path+"/", prefix+"/") }
	for _, a := range areas {
		if slices.ContainsFunc(a.prefixes, within) {
			return a
		}
	}
	return areas[len(areas)-1]
}

// tags returns the tags of the areas that the paths belong to.
func tags(paths map[string]*huma.PathItem) []*huma.Tag {
	used := map[string]bool{}
	for path := range paths {
		used[areaOf(path).name] = true
	}
	var out []*huma.Tag
	for _, a := range areas {
		if used[a.name] {
			out = append(out, &huma.Tag{Name: a.name, Description: a.description})
		}
	}
	return out
}

// document returns the configuration of the OpenAPI document, to which the routes are added.
func document() huma.Config {
	config := huma.DefaultConfig("Steward", Version+".0.0")
	config.CreateHooks = nil // the default adds $schema to bodies and a Link header
	config.OpenAPIPath = ""
	config.DocsPath = ""
	config.SchemasPath = ""
	config.AllowAdditionalPropertiesByDefault = true
	config.Components.Schemas = huma.NewMapRegistry(schemaPrefix, schemaName)
	config.Info.Description = "Self-hosted control plane for the OAuth clients, API keys, object storage, " +
		"regional resources, threads, evaluations and webhooks of an organization."
	config.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	config.Servers = []*huma.Server{{URL: "/"}}
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key": {Type: "http", Scheme: "bearer", Description: "API key (`sk_…`), or access token issued by this server"},
	}
	config.Security = []map[string][]string{{"key": {}}}
	return config
}

// schemaName returns the name of a type's schema, which includes the package, since packages have
// types of the same name.
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

var nonWord = regexp.MustCompile(`[^A-Za-z0-9]+`)

// responses returns the documentation of a route's responses: its value, or a Problem.
func responses(schemas huma.Registry, status int, value reflect.Type) map[string]*huma.Response {
	ok := &huma.Response{Description: http.StatusText(status), Headers: headersOf(value)}
	switch {
	case value == reflect.TypeFor[Raw]():
		ok.Content = content("application/octet-stream", &huma.Schema{Type: "string", Format: "binary"})
	case status != http.StatusNoContent && value != reflect.TypeFor[None]():
		ok.Content = content("application/json", schemas.Schema(value, true, ""))
	}
	problem := schemas.Schema(reflect.TypeFor[Problem](), true, "")
	return map[string]*huma.Response{
		strconv.Itoa(status): ok,
		"4XX":                {Description: "Error", Content: content(Bare.FailureType, problem)},
	}
}

func content(mediaType string, schema *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{mediaType: {Schema: schema}}
}

// headersOf returns the documentation of the headers that Write sets for a value.
func headersOf(value reflect.Type) map[string]*huma.Param {
	text, number := &huma.Schema{Type: "string"}, &huma.Schema{Type: "integer"}
	switch {
	case value.Implements(reflect.TypeFor[page.Versioned]()):
		return map[string]*huma.Param{
			"ETag": {Description: "Version of the resource, for If-Match and If-None-Match", Schema: text},
		}
	case value.Implements(reflect.TypeFor[headerSetter]()):
		return map[string]*huma.Param{
			"X-Total-Count": {
				Description: "Number of items in the whole list; absent if it is too expensive to count",
				Schema:      number,
			},
			"Link": {Description: "Links to other pages: first, prev, next, last", Schema: text},
		}
	}
	return nil
}

// idempotencyParam returns the documentation of the header that all POST routes accept.
func idempotencyParam() *huma.Param {
	shortest, longest := 1, 255
	return &huma.Param{
		Name: "Idempotency-Key", In: "header",
		Description: "Repeating a request with the same key and body within 24 hours returns the original response. " +
			"The same key with another body is an error.",
		Schema: &huma.Schema{Type: "string", MinLength: &shortest, MaxLength: &longest},
	}
}

// operation returns the documentation of a route.
func operation(r Route) huma.Operation {
	op := huma.Operation{
		Method: r.Method, Path: r.Path, Summary: r.Summary, DefaultStatus: r.Status,
		MaxBodyBytes: -1, // readBody has the limit; huma would reject a body of exactly that size
		OperationID:  strings.ToLower(r.Method) + nonWord.ReplaceAllString(strings.TrimSuffix(r.Path, "}"), "-"),
		Tags:         []string{areaOf(r.Path).name},
		Description:  requirement(r.Permission),
	}
	if r.Method == http.MethodPost {
		op.Parameters = []*huma.Param{idempotencyParam()}
	}
	return op
}

// requirement returns the description of who may use a route.
func requirement(p auth.Permission) string {
	text := "Available to all roles"
	if len(p.Roles) < len(auth.Roles) {
		text = "Requires the role " + p.RoleNames()
	}
	if p.Scope != "" {
		text += "; access tokens require the scope `" + p.Scope + "`"
	}
	if !p.Project {
		text += "; not available to keys of a project"
	}
	return text + "."
}

// Document returns the OpenAPI document of the API.
func (a *API) Document() ([]byte, error) {
	doc := a.huma.OpenAPI()
	doc.Tags = tags(doc.Paths)
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encode OpenAPI document: %w", err)
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("decode OpenAPI document: %w", err)
	}
	fixNode(tree)
	components, _ := tree["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	for name, schema := range schemas {
		allowNull(schema.(map[string]any), doc.Components.Schemas.TypeFromRef(schemaPrefix+name))
	}
	return json.Marshal(tree)
}

// fixNode adds null to the enums of nullable fields, which huma omits, and removes a keyword that
// only huma knows.
func fixNode(node any) {
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
			fixNode(child)
		}
	case []any:
		for _, child := range n {
			fixNode(child)
		}
	}
}

// allowNull adds null to the type of fields that are pointers to structs and always present, which
// huma omits.
func allowNull(schema map[string]any, t reflect.Type) {
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

// ServeDocs adds GET /openapi.json and GET /docs to the API.
func (a *API) ServeDocs() error {
	doc, err := a.Document()
	if err != nil {
		return err
	}
	a.Handle("GET /openapi.json", static("application/json", doc, ""))
	a.Handle("GET /docs", static("text/html; charset=utf-8", docsPage, docsPolicy))
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

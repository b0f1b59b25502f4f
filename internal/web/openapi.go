package web

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/auth"
)

// docsPage renders /openapi.json. It loads nothing from other hosts.
//
//go:embed docs.html
var docsPage []byte

// docsPolicy is the Content-Security-Policy for docsPage.
const docsPolicy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

const schemaPrefix = "#/components/schemas/"

// newDocument returns an OpenAPI document without routes.
func newDocument() *huma.OpenAPI {
	config := huma.DefaultConfig("Steward", Version+".0.0")
	config.CreateHooks = nil // the default hooks add $schema to bodies and a Link header
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.AllowAdditionalPropertiesByDefault = true
	config.Components.Schemas = huma.NewMapRegistry(schemaPrefix, schemaName)
	config.Info.Description = "Self-hosted control plane for the OAuth clients, API keys, object storage, " +
		"regional resources, threads, evaluations and webhooks of an organization."
	config.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	config.Servers = []*huma.Server{{URL: "/"}}
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key": {Type: "http", Scheme: "bearer", Description: "API key (`sk_…`), or access token issued by this server"},
	}
	config.Tags = []*huma.Tag{
		{Name: "Account", Description: "The current user, organizations and projects."},
		{Name: "Members", Description: "Members of the organization and their roles."},
		{Name: "API keys", Description: "API keys."},
		{
			Name:        "OAuth",
			Description: "OAuth 2.0 and OpenID Connect clients, consents, activity, scopes and signing keys.",
		},
		{Name: "Threads", Description: "Conversation threads and sessions of agents."},
		{Name: "Evaluations", Description: "Evaluations and their runs."},
		{Name: "Webhooks", Description: "Webhooks, destinations, receipts, deliveries and analytics."},
		{Name: "Object storage", Description: "Objects, presigned URLs, usage and configuration of buckets."},
		{Name: "Resources", Description: "Regions and their databases, buckets and key-value stores."},
		{Name: "Audit", Description: "Audit log."},
		{Name: "Alerts", Description: "Rules that send notices when something goes wrong."},
		{Name: "Other", Description: "Other operations."},
	}
	config.Security = []map[string][]string{{"key": {}}}
	config.Components.Headers = sharedHeaders()
	doc := huma.NewAPI(config, nil).OpenAPI() // configures the registry; huma serves no requests
	doc.Components.Responses = errorResponses(doc.Components.Schemas)
	return doc
}

// schemaName names a type's schema. The name includes the package, since packages share type names.
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

// GoNames maps schemas' names to their types' names in package client.
func (a *API) GoNames() map[string]string {
	schemas := a.document.Components.Schemas
	names := map[string]string{}
	for name := range schemas.Map() {
		names[name] = goName(schemas.TypeFromRef(schemaPrefix + name))
	}
	return names
}

// goName returns a type's name in package client: the goName tag on its field _, or its own name. A type
// needs the tag if its name says nothing without its package.
func goName(t reflect.Type) string {
	for i := range t.NumField() {
		if f := t.Field(i); f.Name == "_" && f.Tag.Get("goName") != "" {
			return f.Tag.Get("goName")
		}
	}
	return t.Name()
}

func operation(r Route) *huma.Operation {
	op := &huma.Operation{
		Method: r.Method, Path: r.Path, Summary: r.Summary,
		OperationID: r.ID,
		Tags:        []string{r.Tag},
		Description: requirement(r.Permission),
		Extensions:  map[string]any{"x-roles": r.Permission.Roles, "x-project-keys": r.Permission.Project},
	}
	if r.Permission.Scope != "" {
		op.Security = []map[string][]string{{"key": {r.Permission.Scope}}}
	}
	if r.Method == http.MethodPost {
		op.Parameters = []*huma.Param{idempotencyParam()}
	}
	return op
}

// idempotencyParam documents the header that all POST routes accept.
func idempotencyParam() *huma.Param {
	shortest, longest := 1, 255
	return &huma.Param{
		Name: "Idempotency-Key", In: "header",
		Description: "Repeating a successful request with the same key and body within 24 hours returns the original response. " +
			"The same key with another body is an error. A request that fails leaves its key free.",
		Schema: &huma.Schema{Type: "string", MinLength: &shortest, MaxLength: &longest, Examples: []any{"3f0c1f6e-order-1042"}},
	}
}

func requirement(p auth.Permission) string {
	text := "Available to all roles"
	if len(p.Roles) < len(auth.Roles) {
		text = "Requires the role " + p.RoleNames()
	}
	if p.Installation {
		text += " in the first organization"
	}
	if p.Scope != "" {
		text += "; access tokens require the scope `" + p.Scope + "`"
	}
	if !p.Project {
		text += "; not available to keys of a project"
	}
	return text + "."
}

// Document returns the API's OpenAPI document.
func (a *API) Document() ([]byte, error) {
	text, err := json.Marshal(a.document)
	if err != nil {
		return nil, fmt.Errorf("encode OpenAPI document: %w", err)
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("decode OpenAPI document: %w", err)
	}
	newCorrector(tree, a.document.Components.Schemas).correct()
	return json.Marshal(tree)
}

// ServeDocs adds GET /openapi.json and GET /docs to the API. It generates the document at the first
// request: few processes serve it, and generating it takes longer than the rest of their start.
func (a *API) ServeDocs() {
	document := sync.OnceValues(a.Document)
	a.Handle("GET /openapi.json", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := document()
		if err != nil {
			Fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(text)
	}))
	a.Handle("GET /docs", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", docsPolicy)
		w.Write(docsPage)
	}))
}

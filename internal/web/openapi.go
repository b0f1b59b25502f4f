package web

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// docsPage reads /openapi.json and shows it; it loads nothing from elsewhere.
//
//go:embed docs.html
var docsPage []byte

// document is the frame of the OpenAPI document; the routes fill it.
func document() huma.Config {
	config := huma.DefaultConfig("Steward", Version+".0.0")
	config.CreateHooks = nil // they would add $schema to bodies and a Link header
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.AllowAdditionalPropertiesByDefault = true
	config.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	config.Info.Description = "A self-hosted control plane: OAuth applications, API keys, object storage, regional resources, threads, evaluations and webhooks of an organization."
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

// operation is the document's entry for a route.
func operation(r Route) huma.Operation {
	area := strings.TrimPrefix(r.Path, "/cli")
	return huma.Operation{
		Method: r.Method, Path: r.Path, Summary: r.Summary, DefaultStatus: r.Status,
		OperationID: strings.ToLower(r.Method) + wordBreak.ReplaceAllString(strings.TrimSuffix(r.Path, "}"), "-"),
		Tags:        []string{strings.Split(area, "/")[1]},
		Description: "Needs the permission to " + r.Permission.Name + ".",
	}
}

// Document gives the OpenAPI document of the mounted table.
func (a *API) Document() ([]byte, error) {
	doc := a.huma.OpenAPI()
	schemas := doc.Components.Schemas.Map()
	delete(schemas, "HumaErrorModel") // huma's own errors are never sent
	delete(schemas, "HumaErrorDetail")
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	allowNull(tree)
	return json.Marshal(tree)
}

// allowNull adds null to the enums of nullable fields, which huma leaves out.
func allowNull(node any) {
	switch n := node.(type) {
	case map[string]any:
		enum, isEnum := n["enum"].([]any)
		if types, ok := n["type"].([]any); ok && isEnum && len(types) == 2 && types[1] == "null" {
			n["enum"] = append(enum, nil)
		}
		for _, child := range n {
			allowNull(child)
		}
	case []any:
		for _, child := range n {
			allowNull(child)
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

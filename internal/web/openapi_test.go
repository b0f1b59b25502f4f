package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"steward/internal/auth"
	"steward/internal/page"
)

// pet has a field for each kind of type that huma alone documents incorrectly.
type pet struct {
	ID    string  `json:"id"`
	Size  *string `json:"size" enum:"small,large"`
	Owner *owner  `json:"owner"`
	Vet   *owner  `json:"vet,omitempty"`
}

type owner struct {
	Name string `json:"name"`
}

type petPatch struct {
	Size page.Opt[string] `json:"size,omitempty" enum:"small,large"`
	Home page.Opt[home]   `json:"home,omitempty"`
}

type home struct {
	Street string `json:"street"`
}

func petTable() []Route {
	type one struct {
		ID string `path:"id"`
	}
	type change struct {
		ID   string `path:"id"`
		Body petPatch
	}
	list := func(context.Context, *struct{ page.Paging }) (page.Page[pet], error) { return page.Page[pet]{}, nil }
	get := func(context.Context, *one) (pet, error) { return pet{}, nil }
	put := func(context.Context, *change) (pet, error) { return pet{}, nil }
	remove := func(context.Context, *one) (None, error) { return None{}, nil }
	raw := func(context.Context, *one) (Raw, error) { return Raw{}, nil }
	return Group("Other",
		On("GET /pet", "listPets", auth.Self, 200, "List pets", list),
		On("GET /pet/{id}", "getPet", auth.Self, 200, "Get a pet", get),
		On("PUT /pet/{id}", "changePet", auth.Self, 200, "Change a pet", put),
		On("DELETE /pet/{id}", "deletePet", auth.Self, 204, "Delete a pet", remove),
		On("GET /webhook/raw/{id}", "getRaw", auth.Self, 200, "Get raw bytes", raw),
	)
}

func petAPI(t *testing.T) *API {
	t.Helper()
	api := NewAPI(petTable(), func(_ Route, _ http.ResponseWriter, r *http.Request) *http.Request { return r }, nil)
	api.ServeDocs()
	return api
}

func fetch(t *testing.T, api *API, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, w.Code, w.Body)
	}
	return w
}

type operationDoc struct {
	OperationID string         `json:"operationId"`
	Summary     string         `json:"summary"`
	Tags        []string       `json:"tags"`
	Responses   map[string]any `json:"responses"`
}

type documentDoc struct {
	OpenAPI    string                             `json:"openapi"`
	Paths      map[string]map[string]operationDoc `json:"paths"`
	Components struct {
		Schemas map[string]struct {
			Properties map[string]map[string]any `json:"properties"`
		} `json:"schemas"`
	} `json:"components"`
}

func petDocument(t *testing.T) (doc documentDoc, text string) {
	t.Helper()
	body := fetch(t, petAPI(t), "/openapi.json").Body.Bytes()
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	return doc, string(body)
}

func TestDocumentHasEveryRoute(t *testing.T) {
	doc, _ := petDocument(t)
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Errorf("openapi is %q, want 3.1", doc.OpenAPI)
	}
	ids := map[string]bool{}
	for _, r := range petTable() {
		op, ok := doc.Paths[r.Path][strings.ToLower(r.Method)]
		if !ok {
			t.Errorf("%s is not in the document", r.Pattern())
			continue
		}
		if op.Summary != r.Summary || op.Responses[fmt.Sprint(r.Status)] == nil || op.Responses["401"] == nil {
			t.Errorf("%s is documented as %+v", r.Pattern(), op)
		}
		if op.OperationID != r.ID || ids[op.OperationID] || !slices.Equal(op.Tags, []string{r.Tag}) {
			t.Errorf("%s has the operationId %q and the tags %v", r.Pattern(), op.OperationID, op.Tags)
		}
		ids[op.OperationID] = true
	}
	count := 0
	for _, item := range doc.Paths {
		count += len(item)
	}
	if count != len(petTable()) {
		t.Errorf("the document has %d operations, the table %d", count, len(petTable()))
	}
}

func TestDocumentMarksNullableFields(t *testing.T) {
	doc, _ := petDocument(t)
	schemas := doc.Components.Schemas
	for _, size := range []map[string]any{schemas["WebPet"].Properties["size"], schemas["WebPetPatch"].Properties["size"]} {
		types, _ := size["type"].([]any)
		enum, _ := size["enum"].([]any)
		if !slices.Contains(types, any("null")) || !slices.Contains(enum, nil) || !slices.Contains(enum, any("small")) {
			t.Errorf("a nullable enum is documented as %v", size)
		}
	}
	got := fmt.Sprint(schemas["WebPet"].Properties["owner"]["anyOf"])
	if got != "[map[$ref:#/components/schemas/WebOwner] map[type:null]]" {
		t.Errorf("a nullable object is documented as %v", schemas["WebPet"].Properties["owner"])
	}
	if got := schemas["WebPet"].Properties["vet"]["$ref"]; got != "#/components/schemas/WebOwner" {
		t.Errorf("an optional object is documented as %v", schemas["WebPet"].Properties["vet"])
	}
}

func TestDocumentContainsNothingOfHuma(t *testing.T) {
	doc, text := petDocument(t)
	if strings.Contains(text, `"$schema"`) {
		t.Error("the document has a $schema")
	}
	for name := range doc.Components.Schemas {
		if strings.HasPrefix(name, "Huma") || strings.Contains(name, "ErrorModel") ||
			strings.Contains(name, "ErrorDetail") {
			t.Errorf("the document has huma's schema %s", name)
		}
		if !strings.Contains(text, `"`+schemaPrefix+name+`"`) {
			t.Errorf("nothing refers to the schema %s", name)
		}
	}
	if _, ok := doc.Components.Schemas["WebProblem"]; !ok {
		t.Error("the document has no schema for errors")
	}
}

// TestDocsPageLoadsNothingFromOtherHosts also checks that the page treats the document as text,
// never as markup.
func TestDocsPageLoadsNothingFromOtherHosts(t *testing.T) {
	w := fetch(t, petAPI(t), "/docs")
	page := w.Body.String()
	links := regexp.MustCompile(`(?i)\b(?:src|href|action|srcset)\s*=\s*["']?([^"'\s>]*)`)
	for _, link := range links.FindAllStringSubmatch(page, -1) {
		if link[1] != "openapi.json" && !strings.HasPrefix(link[1], "#") {
			t.Errorf("the page refers to %q", link[1])
		}
	}
	loads := []string{"://", " url(", ":url(", "@import", "import("}
	markup := []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("}
	for _, forbidden := range slices.Concat(loads, markup) {
		if strings.Contains(page, forbidden) {
			t.Errorf("the page contains %q", forbidden)
		}
	}
	if !regexp.MustCompile(`<noscript>.*openapi\.json.*</noscript>`).MatchString(page) {
		t.Error("the page has no link to the document for browsers without JavaScript")
	}
	policy := w.Header().Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "*") ||
		!strings.Contains(policy, "connect-src 'self'") {
		t.Errorf("Content-Security-Policy: %s", policy)
	}
}

func TestDocumentIsMadeOnceForConcurrentRequests(t *testing.T) {
	api := petAPI(t)
	texts := make([]string, 8)
	var requests sync.WaitGroup
	for i := range texts {
		requests.Go(func() {
			w := httptest.NewRecorder()
			api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/openapi.json", nil))
			texts[i] = w.Body.String()
		})
	}
	requests.Wait()
	if texts[0] == "" || len(slices.Compact(texts)) != 1 {
		t.Errorf("requests at the same time got different documents: %.100q", texts)
	}
}

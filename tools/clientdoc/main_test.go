package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

const root = "../.."

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestCommittedDocumentIsThatOfTheCode(t *testing.T) {
	current, err := document()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(current, readFile(t, "client/openapi.json")) {
		t.Error("client/openapi.json is not the document of the route table; run make client")
	}
}

// TestGeneratedCodeIsOfCommittedSources compares checksums of the document, the configuration and the templates.
// tools/lint generates the code again, which needs the generator.
func TestGeneratedCodeIsOfCommittedSources(t *testing.T) {
	templates, err := filepath.Glob("templates/*.tmpl")
	if err != nil || len(templates) == 0 {
		t.Fatalf("%d templates, %v", len(templates), err)
	}
	sources := []string{"client/openapi.json", "tools/client", "tools/clientdoc/oapi-codegen.yaml"}
	for _, template := range templates {
		sources = append(sources, "tools/clientdoc/"+template)
	}
	hash := sha256.New()
	for _, name := range sources {
		hash.Write(readFile(t, name))
	}
	want := fmt.Sprintf("\n// Sources: sha256 %x\n", hash.Sum(nil))
	if !bytes.HasSuffix(readFile(t, "client/generated.go"), []byte(want)) {
		t.Error("client/generated.go was generated from other sources; run make client")
	}
}

// TestFieldTypes checks the choices that the generator would make differently.
func TestFieldTypes(t *testing.T) {
	text, err := document()
	if err != nil {
		t.Fatal(err)
	}
	var tree node
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ schema, field, key, want string }{
		{"WebhookPatch", "description", "x-go-type", "Field[string]"},
		{"BucketConfigPatch", "cors", "x-go-type", "Field[CORS]"},
		{"OrganizationPatch", "require_mfa", "x-go-type", "Field[RequireMFA]"},
		{"WebhookPatch", "name", "x-go-type", "<nil>"},
		{"NewAPIKey", "scopes", "x-omitzero", "true"}, // an empty list must not become the default
		{"NewAPIKey", "projectId", "nullable", "<nil>"},
		{"APIKey", "expiresAt", "nullable", "true"},
		{"Receipt", "payload", "x-go-type", "json.RawMessage"},
	} {
		property := object(tree, "components", "schemas", test.schema, "properties", test.field)
		if got := fmt.Sprint(property[test.key]); property == nil || got != test.want {
			t.Errorf("%s.%s has %s %s, want %s", test.schema, test.field, test.key, got, test.want)
		}
	}
}

func TestUnionHasTheFieldsOfAll(t *testing.T) {
	text := `{"paths": {}, "components": {"schemas": {
		"List": {"properties": {"created": {"type": "array", "items": {"anyOf": [
			{"$ref": "#/components/schemas/S3Created"}, {"$ref": "#/components/schemas/DBCreated"},
			{"$ref": "#/components/schemas/KVCreated"}]}}}},
		"S3Created": {"properties": {"type": {"type": "string", "enum": ["s3"]}, "bucket": {"type": "string"}}, "required": ["type", "bucket"]},
		"DBCreated": {"properties": {"type": {"type": "string", "enum": ["db"]}, "url": {"type": "string", "nullable": true}}, "required": ["type", "url"]},
		"KVCreated": {"properties": {"type": {"type": "string", "enum": ["kv"]}}, "required": ["type"]}}}}`
	var tree node
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	if err := mergeUnions(tree); err != nil {
		t.Fatal(err)
	}
	nameEnums(tree)
	got, err := json.Marshal(object(tree, "components", "schemas", "CreatedResource"))
	want := `{"properties":{"bucket":{"type":"string"},"type":{"allOf":[{"$ref":"#/components/schemas/ResourceType"}]},"url":{"type":"string"}},"required":["type"],"type":"object"}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	object(tree, "components", "schemas", "List")["anyOf"] = []any{node{"$ref": schemaPrefix + "List"}}
	if err := mergeUnions(tree); err == nil {
		t.Error("no error for a union without a name")
	}
}

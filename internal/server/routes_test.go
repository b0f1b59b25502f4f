package server

import (
	"encoding/json"
	"maps"
	"regexp"
	"testing"

	"steward/internal/web"
)

// TestEveryRouteIsDescribed also checks that no two routes have the same operation id.
func TestEveryRouteIsDescribed(t *testing.T) {
	id := regexp.MustCompile(`^[a-z]+([A-Z][A-Za-z]*)?$`)
	summary := regexp.MustCompile(`^[A-Z].*[^.]$`)
	routes := map[string]string{}
	for _, r := range (&Server{}).Routes() {
		if !id.MatchString(r.ID) || r.Tag == "" || !summary.MatchString(r.Summary) {
			t.Errorf("%s has the operation id %q, the tag %q and the summary %q", r.Pattern(), r.ID, r.Tag, r.Summary)
		}
		if other, taken := routes[r.ID]; taken {
			t.Errorf("%s and %s have the operation id %s", r.Pattern(), other, r.ID)
		}
		routes[r.ID] = r.Pattern()
	}
}

func TestDocumentDescribesTheTagsOfRoutes(t *testing.T) {
	routes := (&Server{}).Routes()
	text, err := web.NewAPI(routes, nil, nil).Document()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Tags []struct{ Name, Description string } `json:"tags"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, tag := range doc.Tags {
		described[tag.Name] = tag.Description != ""
	}
	used := map[string]bool{}
	for _, r := range routes {
		used[r.Tag] = true
	}
	if !maps.Equal(described, used) {
		t.Errorf("described tags %v, used tags %v", described, used)
	}
}

package oidc

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/auth"
)

func TestCatalogueScopes(t *testing.T) {
	c := NewCatalogue()
	var names, required, defaults []string
	for _, s := range c.Scopes {
		names = append(names, s.Name)
		if s.Required {
			required = append(required, s.Name)
		}
		if s.Default {
			defaults = append(defaults, s.Name)
		}
		if s.Description == "" || s.ConsentTitle == "" || s.ConsentDescription == "" {
			t.Errorf("%s lacks a text", s.Name)
		}
		if strings.HasSuffix(s.Name, ":write") && !s.Sensitive {
			t.Errorf("%s is not sensitive", s.Name)
		}
	}
	want := strings.Fields(`openid profile email organization offline_access account:read account:write member:read member:write oauth:read oauth:write
		apikey:read apikey:write storage:read storage:write resource:read resource:write thread:read thread:write eval:read eval:write
		webhook:read webhook:write`)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	wantDefaults := []string{"openid", "profile", "email", "offline_access"}
	if !slices.Equal(required, []string{"openid"}) || !slices.Equal(defaults, wantDefaults) {
		t.Error(required, defaults)
	}
}

func TestCatalogueAccessLevels(t *testing.T) {
	var areas []string
	for _, p := range NewCatalogue().Permissions {
		for _, g := range p.Groups {
			areas = append(areas, g.ID)
			read, write := g.ID+":read", g.ID+":write"
			want := []AccessLevel{
				{Label: "None", Value: "none", Scopes: []string{}},
				{Label: "Read", Value: "read", Scopes: []string{read}},
				{Label: "Read and write", Value: "write", Scopes: []string{read, write}},
			}
			if g.ID != "eval" { // nothing can be deleted there
				want[2].Warning = true
				want[2].WarningTitle = g.Levels[2].WarningTitle
				if want[2].WarningTitle == "" {
					t.Errorf("%s has a warning without a title", g.ID)
				}
			}
			if diff := cmp.Diff(want, g.Levels); diff != "" {
				t.Error(g.ID, diff)
			}
		}
	}
	if diff := cmp.Diff(strings.Fields("account member oauth apikey storage resource thread eval webhook"), areas); diff != "" {
		t.Error(diff)
	}
}

// TestCatalogueHasTheScopesOfTheAPI checks that clients can request what API keys can be restricted to.
func TestCatalogueHasTheScopesOfTheAPI(t *testing.T) {
	ofAPI := 0
	for _, s := range Scopes() {
		if auth.IsScope(s.Name) {
			ofAPI++
		}
	}
	if want := len(Scopes()) - len(identityScopes); ofAPI != want {
		t.Errorf("%d scopes of the catalogue are of the API, want %d", ofAPI, want)
	}
	for _, name := range []string{"openid", "offline_access", "webhook:other", "webhook:", "webhook", "other:read", ""} {
		if auth.IsScope(name) {
			t.Errorf("%q is a scope of the API", name)
		}
	}
}

func TestCatalogueIsACopy(t *testing.T) {
	NewCatalogue().Scopes[0].Name = "changed"
	Scopes()[1].Name = "changed"
	if NewCatalogue().Scopes[0].Name != "openid" || Scopes()[1].Name != "profile" {
		t.Error("a caller can change the catalogue")
	}
}

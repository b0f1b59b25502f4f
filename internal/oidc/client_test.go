package oidc

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"steward/internal/id"
	"steward/internal/page"
)

var fixed = time.Date(2026, 11, 15, 8, 30, 0, 123_000_000, time.UTC)

func some[T any](v T) page.Opt[T] { return page.Some(v) }

func null[T any]() page.Opt[T] { return page.Opt[T]{Sent: true, Null: true} }

func numbered(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(prefix, i)
	}
	return out
}

// tree returns a value after a round trip through JSON.
func tree(t testing.TB, v any) map[string]any {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	var out map[string]any
	must(t, json.Unmarshal(text, &out))
	return out
}

func TestNewClientHasDefaults(t *testing.T) {
	n := NewClient{Name: "Notes", Description: "Keeps notes", HomepageURL: "https://notes.example"}
	c, secret, err := n.build(fixed)
	must(t, err)
	if len(secret) != 43 || strings.Trim(secret, id.Base62) != "" {
		t.Errorf("the secret has %d characters", len(secret))
	}
	got := tree(t, c)
	if !id.Is(id.Client, c.ID) {
		t.Errorf("id %s", c.ID)
	}
	delete(got, "id")
	want := map[string]any{
		"name": "Notes", "description": "Keeps notes", "homepage_url": "https://notes.example", "icon": nil,
		"client_type": "confidential", "redirect_uris": []any{}, "post_logout_redirect_uris": []any{},
		"grant_types": []any{"authorization_code", "refresh_token"}, "response_types": []any{"code"},
		"scopes": []any{"openid", "profile", "email", "offline_access"}, "allowed_user_ids": []any{}, "allowed_clients": []any{},
		"internal": false, "is_public": true, "token_endpoint_auth_method": "client_secret_basic",
		"created_at": "2026-11-15T08:30:00.123Z", "updated_at": "2026-11-15T08:30:00.123Z",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if c.AccessLifetime() != time.Hour || c.IDLifetime() != time.Hour || c.RefreshLifetime() != 30*24*time.Hour {
		t.Error("lifetimes", c.AccessLifetime(), c.IDLifetime(), c.RefreshLifetime())
	}
}

func TestNullMeansAbsentOnCreate(t *testing.T) {
	var n NewClient
	must(t, json.Unmarshal([]byte(`{"name": "a", "description": "", "homepage_url": "https://a.example", "icon": null,
		"client_type": null, "redirect_uris": null, "post_logout_redirect_uris": null, "grant_types": null,
		"response_types": null, "scopes": null, "project_id": null, "access_token_lifetime_seconds": null,
		"refresh_token_lifetime_seconds": null, "id_token_lifetime_seconds": null, "allowed_user_ids": null, "allowed_clients": null,
		"is_public": null}`), &n))
	got, _, err := n.build(fixed)
	must(t, err)
	want, _, err := NewClient{Name: "a", HomepageURL: "https://a.example"}.build(fixed)
	must(t, err)
	want.ID = got.ID
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Client{})); diff != "" {
		t.Error(diff)
	}
}

func TestListsHaveNoRepetitions(t *testing.T) {
	c, _, err := NewClient{Name: "a", HomepageURL: "https://a.example", Settings: Settings{
		Scopes:       some([]string{"email", "openid", "email"}),
		RedirectURIs: some([]string{"https://f.example", "https://a.example", "https://f.example"}),
	}}.build(fixed)
	must(t, err)
	if !slices.Equal(c.Scopes, []string{"email", "openid"}) ||
		!slices.Equal(c.RedirectURIs, []string{"https://f.example", "https://a.example"}) {
		t.Error(c.Scopes, c.RedirectURIs)
	}
}

func TestChangeOfTypeChangesTheSecret(t *testing.T) {
	before, _, err := NewClient{Name: "a", HomepageURL: "https://a.example"}.build(fixed)
	must(t, err)
	native := Settings{ClientType: some(Public), RedirectURIs: some([]string{"com.example.a:/cb"})}
	public, secret, err := ClientPatch{Settings: native}.apply(before, fixed)
	if err != nil || secret != "" {
		t.Fatal(secret, err)
	}
	if _, secret, err = (ClientPatch{Name: some("b")}).apply(public, fixed); err != nil || secret != "" {
		t.Error("an update without a change of type has created a secret", err)
	}
	_, _, err = ClientPatch{Settings: Settings{ClientType: some(Confidential)}}.apply(public, fixed)
	if err == nil || !strings.Contains(err.Error(), "body.redirect_uris[0]") {
		t.Errorf("a confidential client has a private-use URI: %v", err)
	}
	toConfidential := Settings{ClientType: some(Confidential), RedirectURIs: some([]string{})}
	_, secret, err = ClientPatch{Settings: toConfidential}.apply(public, fixed)
	if err != nil || len(secret) != 43 {
		t.Error(len(secret), err)
	}
	machine, _, err := ClientPatch{Settings: Settings{GrantTypes: some([]string{ClientCredentials})}}.apply(before, fixed)
	must(t, err)
	_, _, err = ClientPatch{Settings: Settings{ClientType: some(Public)}}.apply(machine, fixed)
	if err == nil || !strings.Contains(err.Error(), "body.grant_types[0]") {
		t.Errorf("a public client has client_credentials: %v", err)
	}
}

func TestNullInPatchClearsOptionalFieldsOnly(t *testing.T) {
	var p ClientPatch
	must(t, json.Unmarshal([]byte(`{"icon": null, "project_id": null, "access_token_lifetime_seconds": null,
		"refresh_token_lifetime_seconds": null, "id_token_lifetime_seconds": null}`), &p))
	life, text := int64(600), "x"
	c, _, err := p.apply(Client{
		Name: "a", HomepageURL: "https://a.example", ClientType: Public, AuthMethod: NoAuth, ResponseTypes: responseTypes, Icon: &text, ProjectID: &text, AccessSeconds: &life,
		RefreshSeconds: &life, IDSeconds: &life,
	}, fixed)
	must(t, err)
	if c.Icon != nil || c.ProjectID != nil || c.AccessSeconds != nil || c.RefreshSeconds != nil || c.IDSeconds != nil {
		t.Error(c)
	}
	c.Scopes = []string{"openid"}
	c.IsPublic = true
	nulls := Settings{Scopes: null[[]string](), IsPublic: null[bool]()} // package web refuses them
	c, _, err = ClientPatch{Settings: nulls}.apply(c, fixed)
	must(t, err)
	if len(c.Scopes) != 1 || !c.IsPublic {
		t.Error(c)
	}
}

// TestPatchOverwritesTheSentFields compares random updates with a model, which overwrites the
// fields in the JSON of the client.
func TestPatchOverwritesTheSentFields(t *testing.T) {
	fields := map[string]*rapid.Generator[any]{
		"name": words(), "description": words(), "homepage_url": choice[any]("https://a.example", "http://f.example/x"),
		"icon": choice[any](nil, "https://a.example/i.png"), "project_id": choice[any](nil, "prj_1", "prj_2"),
		"client_type": choice[any]("confidential", "public"), "is_public": choice[any](true, false),
		"redirect_uris":             lists("https://a.example/cb", "http://127.0.0.1/cb", "http://localhost:1/cb"),
		"post_logout_redirect_uris": lists("https://a.example/out", "https://f.example/out"),
		"grant_types":               lists(AuthorizationCode, RefreshToken, DeviceCode), "response_types": choice[any]([]any{"code"}),
		"scopes":                         lists("openid", "email", "thread:read", "webhook:write"),
		"access_token_lifetime_seconds":  choice[any](nil, 60.0, 86_400.0),
		"id_token_lifetime_seconds":      choice[any](nil, 61.0),
		"refresh_token_lifetime_seconds": choice[any](nil, 300.0), "allowed_user_ids": lists("usr_1", "usr_2", "x"), "allowed_clients": lists("oac_1", "x"),
	}
	names := slices.Sorted(maps.Keys(fields))
	rapid.Check(t, func(rt *rapid.T) {
		c, _, err := NewClient{Name: "a", HomepageURL: "https://a.example"}.build(fixed)
		must(t, err)
		for range rapid.IntRange(1, 4).Draw(rt, "patches") {
			model := tree(t, c)
			sent := map[string]any{"id": "ignored", "internal": true, "org_id": "ignored", "created_at": "ignored"}
			for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID).Draw(rt, "fields") {
				sent[name] = fields[name].Draw(rt, name)
				model[name] = sent[name]
				if _, optional := optionals[name]; optional && sent[name] == nil {
					delete(model, name)
				}
				if name == "client_type" {
					model["token_endpoint_auth_method"] = string(defaultAuthMethod(Type(sent[name].(string))))
				}
			}
			text, err := json.Marshal(sent)
			must(t, err)
			var p ClientPatch
			must(t, json.Unmarshal(text, &p))
			before := c.version
			if c, _, err = p.apply(c, fixed); err != nil {
				rt.Fatalf("%s: %v", text, err)
			}
			if diff := cmp.Diff(model, tree(t, c)); diff != "" || c.version != before+1 {
				rt.Fatalf("%s: version %d → %d\n%s", text, before, c.version, diff)
			}
		}
	})
}

// optionals are absent from JSON if they are null.
var optionals = map[string]bool{
	"project_id": true, "access_token_lifetime_seconds": true, "refresh_token_lifetime_seconds": true,
	"id_token_lifetime_seconds": true, "audience": true,
}

func words() *rapid.Generator[any] { return rapid.StringMatching(`[a-zü]{1,12}`).AsAny() }

func choice[T any](values ...T) *rapid.Generator[T] { return rapid.SampledFrom(values) }

func lists(values ...string) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		out := []any{}
		for _, v := range rapid.SliceOfDistinct(rapid.SampledFrom(values), rapid.ID).Draw(t, "list") {
			out = append(out, v)
		}
		return out
	})
}

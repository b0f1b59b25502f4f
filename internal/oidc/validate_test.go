package oidc

import (
	"errors"
	"strings"
	"testing"

	"steward/internal/errs"
)

func TestRedirectURIValidation(t *testing.T) {
	const public, both, neither = 1, 2, 0
	for _, c := range []struct {
		uri   string
		valid int
	}{
		{"https://app.example/callback", both},
		{"https://app.example", both},
		{"https://app.example:8443/cb?tenant=a%20b", both},
		{"https://xn--bcher-kva.example/cb", both},
		{"https://192.0.2.7/cb", both},
		{"https://[2001:db8::1]/cb", both},
		{"http://localhost/cb", both},
		{"http://localhost:3000/cb", both},
		{"http://127.0.0.1:0/cb", neither},
		{"http://127.0.0.1:9999/cb", both},
		{"http://127.8.8.8/cb", both},
		{"http://[::1]:80/cb", both},
		{"com.example.app:/callback", public},
		{"com.example.app://callback", public},
		{"com.example.app:callback", neither},

		{"", neither},
		{"/callback", neither},
		{"//app.example/cb", neither},
		{"app.example/cb", neither},
		{"https:", neither},
		{"https:///cb", neither},
		{"https:app.example", neither},
		{"https://:443/cb", neither},
		{"https://app.example:/cb", neither},
		{"https://app.example:99999/cb", neither},
		{"https://app.example:80x/cb", neither},
		{"https://app.example/cb#frag", neither},
		{"https://app.example/cb#", neither},
		{"com.example.app:/callback#x", neither},
		{"https://good.example@evil.example/cb", neither},
		{"https://user:pw@app.example/cb", neither},
		{"https://app.example\\@evil.example/cb", neither},
		{"https://evil.example\\.app.example/cb", neither},
		{"https://app.example/cb\n", neither},
		{" https://app.example/cb", neither},
		{"https://app.example/c b", neither},
		{"https://app.example/\x00", neither},
		{"https://büch.example/cb", neither},
		{"https://*.example/cb", neither},
		{"https://app..example/cb", neither},
		{"https://-app.example/cb", neither},
		{"https://[fe80::1%25eth0]/cb", neither},
		{"https://[::1/cb", neither},
		{"https://app.example/%zz", neither},
		{"http://app.example/cb", neither},
		{"http://localhost.evil.example/cb", neither},
		{"http://127.0.0.1.evil.example/cb", neither},
		{"http://localhost@evil.example/cb", neither},
		{"http://127.1/cb", neither},
		{"http://0x7f000001/cb", neither},
		{"http://2130706433/cb", neither},
		{"http://[::ffff:127.0.0.1]/cb", neither},
		{"http://0.0.0.0/cb", neither},
		{"javascript:alert(1)", neither},
		{"JavaScript://app.example/%0aalert(1)", neither},
		{"data:text/html,x", neither},
		{"file:///etc/passwd", neither},
		{"myapp:/callback", neither},
		{"ftp://app.example/", neither},
		{"urn:ietf:wg:oauth:2.0:oob", neither},
		{"https://app.example/" + strings.Repeat("a", maxURL), neither},
	} {
		for _, kind := range []Type{Confidential, Public} {
			client := Client{ClientType: kind}
			want := c.valid == both || c.valid == public && kind == Public
			if problem := client.uriProblem(c.uri); (problem == "") != want {
				t.Errorf("%s %q: got %q, want valid: %t", kind, c.uri, problem, want)
			}
		}
	}
}

func TestRedirectURIMatching(t *testing.T) {
	registered := []string{
		"https://app.example/cb", "https://app.example:8443/cb", "http://127.0.0.1/cb", "http://[::1]:7000/cb?x=1",
		"http://localhost:3000/cb", "com.example.app:/cb", "http://127.0.0.1",
	}
	for uri, want := range map[string]bool{
		"https://app.example/cb":                true,
		"https://app.example:8443/cb":           true,
		"http://127.0.0.1/cb":                   true,
		"http://127.0.0.1:51234/cb":             true,
		"http://[::1]/cb?x=1":                   true,
		"http://[::1]:9/cb?x=1":                 true,
		"http://127.0.0.1:51234":                true,
		"com.example.app:/cb":                   true,
		"http://localhost:3000/cb":              true,
		"":                                      false,
		"https://app.example/cb/":               false,
		"https://app.example/cb/../x":           false,
		"https://app.example/cb?x=1":            false,
		"https://app.example/c":                 false,
		"https://app.example/CB":                false,
		"HTTPS://app.example/cb":                false,
		"https://app.example:443/cb":            false,
		"https://app.example/cb#":               false,
		"https://app.example.evil.example/cb":   false,
		"https://evil.example/https://app":      false,
		"http://app.example/cb":                 false,
		"http://localhost:3001/cb":              false,
		"http://127.0.0.2:1/cb":                 false,
		"http://127.0.0.1:51234/cb#x":           false,
		"http://127.0.0.1:51234/other":          false,
		"http://127.0.0.1:0/cb":                 false,
		"http://127.0.0.1:/cb":                  false,
		"http://127.0.0.1:1@evil.example/cb":    false,
		"http://127.0.0.1:1\\@evil.example/cb":  false,
		"http://127.0.0.1:1.evil.example/cb":    false,
		"http://[::1]:9/cb":                     false,
		"http://[::1].evil.example:9/cb?x=1":    false,
		"http://evil.example#http://127.0.0.1/": false,
		"https://127.0.0.1:51234/cb":            false,
	} {
		if got := matches(registered, uri); got != want {
			t.Errorf("%q: got %t", uri, got)
		}
	}
	if matches(nil, "https://app.example/cb") || matches(nil, "") {
		t.Error("a URI matches although none is registered")
	}
}

func TestPublicClientsOnTheDeviceAskEachTime(t *testing.T) {
	for uri, native := range map[string]bool{
		"https://app.example/cb": false, "https://127.0.0.1.example/cb": false, "http://127.0.0.1:5000/cb": true,
		"http://[::1]/cb": true, "http://localhost:3000/cb": true, "http://LOCALHOST/cb": true,
		"https://localhost/cb": true, "https://127.0.0.1/cb": true, "com.example.app:/cb": true,
	} {
		for kind, want := range map[Type]bool{Public: native, Confidential: false} {
			r := Registered{Client: Client{ClientType: kind}}
			if r.AsksEachTime(uri) != want {
				t.Errorf("%s %s: got %t", kind, uri, !want)
			}
		}
	}
}

func TestHomepageValidation(t *testing.T) {
	for text, want := range map[string]bool{
		"https://app.example": true, "http://app.example/about?x#y": true, "": false, "app.example": false, "/x": false,
		"javascript:alert(1)": false, "https://": false, "ftp://app.example": false, "https://a f.example": false,
	} {
		if isHomepage(text) != want {
			t.Errorf("%q: got %t", text, !want)
		}
	}
}

func TestIconValidation(t *testing.T) {
	for text, want := range map[string]bool{
		"https://app.example/i.png": true, "https://app.example:8443/i?x=1": true, "http://localhost:3000/i.png": true,
		"http://127.0.0.1/i.png": true, "http://[::1]:3000/i.png": true, "http://app.example/i.png": false,
		"http://127.1/i.png": false, "http://localhost.evil.example/i.png": false, "data:image/png;base64,AA==": false,
		"javascript:alert(1)": false, "https:i.png": false, "https://": false, "/i.png": false, "i": false, "": false,
		"https://user@app.example/i.png": false, "https://app.example/" + strings.Repeat("i", maxURL): false,
		"https://app.example/a b": false, "https://app.example/\x00": false, "ftp://app.example/i.png": false,
	} {
		var create, patch errs.Faults
		s := Settings{Icon: some(text)}
		NewClient{Name: "n", HomepageURL: "https://app.example", Settings: s}.Check(&create)
		ClientPatch{Settings: s}.Check(&patch)
		for name, faults := range map[string]*errs.Faults{"create": &create, "update": &patch} {
			if got := faults.Err() == nil; got != want {
				t.Errorf("%s with %q: %v", name, text, faults.Err())
			}
		}
	}
}

func TestAudienceValidation(t *testing.T) {
	for text, want := range map[string]bool{
		"https://api.example": true, "https://api.example/v1?x=1": true, "urn:example:billing": true,
		"api://billing": true, "": false, "api.example": false, "/v1": false, "//api.example": false,
		"https://api.example#": false, "https://api.example/#x": false, "https:": false, "urn:a b": false,
		"https://api.example/" + strings.Repeat("a", maxURL): false, "https://büch.example": false,
		"https://api.example/\n": false, "oac_01h00000000000000000000000": false,
	} {
		if IsAudience(text) != want {
			t.Errorf("%q: got %t", text, !want)
		}
	}
}

// TestLongListsHaveOneFault checks that entries are not looked at if there are too many.
func TestLongListsHaveOneFault(t *testing.T) {
	many := some(numbered("x", maxUsers+1))
	n := NewClient{Name: "Notes", Description: "d", HomepageURL: "https://notes.example", Settings: Settings{
		RedirectURIs: many, PostLogoutRedirectURIs: many, GrantTypes: many, ResponseTypes: many, Scopes: many,
		AllowedUserIDs: many,
	}}
	_, _, err := n.build(fixed)
	var invalid *errs.Error
	if !errors.As(err, &invalid) || len(invalid.Faults) != 6 {
		t.Errorf("got %v", err)
	}
}

// TestAllFaultsAreReported makes every field invalid at once.
func TestAllFaultsAreReported(t *testing.T) {
	n := NewClient{Name: " ", Description: "bell\a", HomepageURL: "app.example", Settings: Settings{
		Icon:                   some("\x00"),
		ClientType:             some(Public),
		RedirectURIs:           some([]string{"https://fine.example", "http://evil.example"}),
		PostLogoutRedirectURIs: some([]string{"x"}),
		GrantTypes:             some([]string{AuthorizationCode, ClientCredentials, "password"}),
		ResponseTypes:          some([]string{"token"}),
		Scopes:                 some([]string{"openid", "everything"}),
		AccessSeconds:          some(int64(59)),
		RefreshSeconds:         some(int64(31_536_001)),
		IDSeconds:              some(int64(86_401)),
		AllowedUserIDs:         some([]string{"", "usr_1", "inv_1"}),
		Audience:               some("api.example"),
		AllowedClients:         some([]string{"oac_1", "\x00"}),
	}}
	_, _, err := n.build(fixed)
	var invalid *errs.Error
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, f := range invalid.Faults {
		got = append(got, f.Location)
		if strings.Contains(f.Message, "evil") || strings.Contains(f.Message, "everything") {
			t.Errorf("the message contains a value: %s", f.Message)
		}
	}
	want := "body.name body.description body.homepage_url body.redirect_uris[1] " +
		"body.post_logout_redirect_uris[0] body.response_types body.grant_types[1] body.grant_types[2] " +
		"body.scopes[1] body.access_token_lifetime_seconds body.refresh_token_lifetime_seconds " +
		"body.id_token_lifetime_seconds body.allowed_user_ids[0] body.allowed_user_ids[2] body.audience " +
		"body.allowed_clients[1] body.icon"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
}

func TestFieldBounds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*NewClient)
		valid  bool
	}{
		"longest name":        {func(n *NewClient) { n.Name = strings.Repeat("ü", maxName) }, true},
		"name too long":       {func(n *NewClient) { n.Name = strings.Repeat("ü", maxName+1) }, false},
		"name with newline":   {func(n *NewClient) { n.Name = "a\nb" }, false},
		"name with override":  {func(n *NewClient) { n.Name = "\u202egnp.elgoog" }, false},
		"invisible in name":   {func(n *NewClient) { n.Name = "Goo\u200bgle" }, false},
		"no response type":    {func(n *NewClient) { n.ResponseTypes = some([]string{}) }, false},
		"code and id_token":   {func(n *NewClient) { n.ResponseTypes = some([]string{"code", "id_token"}) }, false},
		"code twice":          {func(n *NewClient) { n.ResponseTypes = some([]string{"code", "code"}) }, true},
		"no description":      {func(n *NewClient) { n.Description = "" }, true},
		"description newline": {func(n *NewClient) { n.Description = "a\nb" }, true},
		"description too big": {func(n *NewClient) { n.Description = strings.Repeat("x", maxDescription+1) }, false},
		"shortest access":     {func(n *NewClient) { n.AccessSeconds = some(int64(60)) }, true},
		"shortest refresh":    {func(n *NewClient) { n.RefreshSeconds = some(int64(300)) }, true},
		"longest ID":          {func(n *NewClient) { n.IDSeconds = some(int64(86_400)) }, true},
		"longest refresh":     {func(n *NewClient) { n.RefreshSeconds = some(int64(31_536_000)) }, true},
		"refresh too short":   {func(n *NewClient) { n.RefreshSeconds = some(int64(299)) }, false},
		"negative lifetime":   {func(n *NewClient) { n.AccessSeconds = some(int64(-1)) }, false},
		"all grants":          {func(n *NewClient) { n.GrantTypes = some(GrantTypes()) }, true},
		"unknown type":        {func(n *NewClient) { n.ClientType = some(Type("secret")) }, false},
		"too many URIs":       {func(n *NewClient) { n.RedirectURIs = some(numbered("https://a.example/", maxURIs+1)) }, false},
		"many URIs":           {func(n *NewClient) { n.RedirectURIs = some(numbered("https://a.example/", maxURIs)) }, true},
		"too many users":      {func(n *NewClient) { n.AllowedUserIDs = some(numbered("u", maxUsers+1)) }, false},
		"unknown user":        {func(n *NewClient) { n.AllowedUserIDs = some([]string{"nobody we know"}) }, true},
	} {
		n := NewClient{Name: "Notes", Description: "d", HomepageURL: "https://notes.example"}
		c.change(&n)
		if _, _, err := n.build(fixed); (err == nil) != c.valid {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

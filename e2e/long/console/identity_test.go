package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"steward/e2e/chromium"
	"steward/e2e/installation"
)

// TestConsoleKeys creates API keys, one of them with scopes, uses what is shown once, and deletes one.
func TestConsoleKeys(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.visit("/keys")
	c.Press("New API key")
	c.Fill("name", "deploy")
	c.clickNth(`input[name="limited"]`, 1)
	c.clickNth(`[data-level="webhook.read"]`, 0)
	c.Fill("expires", "30")
	c.Press("Create")
	c.See("The API key was created")
	key := s.As(c.Text(".secret pre"))
	key.Call("GET", "/webhook/list", nil).Want(200)
	key.Call("GET", "/cli/project", nil).Want(403)
	c.Press("I have stored it")
	c.See("webhook:read")
	c.See("in 30 days")
	if shown := chromium.Evaluate[string](c.Browser, `document.body.innerHTML`); strings.Contains(shown, key.Key) {
		t.Error("the value of the key is still on the page")
	}
	c.Press("Delete deploy")
	c.Fill("confirm", "deploy")
	c.Press("Delete API key")
	c.See("The API key was deleted.")
	key.Call("GET", "/webhook/list", nil).Want(401)
	c.Clean()
}

// TestConsoleMembers invites a member, replaces the link and accepts it, changes the role, makes a
// reset link, and disables and removes the member. The actions are those that fit the state.
func TestConsoleMembers(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.visit("/members")
	c.Press("Invite member")
	c.Fill("email", "grace@example.com")
	c.Fill("first_name", "Grace")
	c.Press("Invite")
	c.See("The member was invited")
	first := c.Text(".secret pre")
	c.Press("Close")
	c.See("pending")
	c.See("The link ends in 7 days")
	if offered := c.actions("Grace"); offered != "Copy a new link,Change role,Revoke invitation" {
		t.Errorf("a pending member has the actions %s", offered)
	}
	c.Press("Copy a new link")
	c.See("New invitation link")
	b := s.NewBrowser()
	if p := b.Do("GET", first, nil); strings.Contains(p.Body, `name="password"`) {
		t.Error("the link of before still works")
	}
	if p := b.Submit(b.Do("GET", c.Text(".secret pre"), nil), map[string]string{"password": "a first password"}); p.Location != "/console/sign-in" {
		t.Fatalf("the invitation leads to %q: %s", p.Location, p.Body)
	}
	c.at("/members?find=grace", "Joined")
	c.See("Not seen yet")
	if offered := c.actions("Grace"); offered != "Change role,Reset password,Remove second factors,Disable,Remove" {
		t.Errorf("a member has the actions %s", offered)
	}
	c.Press("Change role")
	c.clickNth(`dialog input[value="viewer"]`, 0)
	c.See("Grace becomes viewer instead of member")
	if members := string(s.Call("GET", "/oidc/org/members", nil).Want(200).Body); strings.Contains(members, `"viewer"`) {
		t.Error("the role is changed before that is confirmed")
	}
	c.Press("Change role")
	c.See("Grace is viewer now.")
	c.actions("Grace")
	c.Press("Reset password")
	c.Press("Make a link")
	if link := c.Text(".secret pre"); !strings.HasPrefix(link, s.URL+"/reset/") {
		t.Errorf("the link is %q", link)
	}
	c.Press("Close")
	c.actions("Grace")
	c.Press("Disable")
	c.Fill("confirm", "grace@example.com")
	c.Press("Disable member")
	c.See("disabled")
	c.actions("Grace")
	c.Press("Enable")
	c.See("can sign in again")
	c.actions("Grace")
	c.Press("Remove")
	c.Fill("confirm", "grace@example.com")
	c.Press("Remove member")
	c.See("No member matches")
	c.Clean()
}

// actions opens the menu of a member and returns what it offers.
func (c *console) actions(name string) string {
	c.T.Helper()
	c.Press("Actions for " + name)
	c.Wait("the menu", `document.querySelector('.sheet.down')`)
	return chromium.Evaluate[string](c.Browser, `[...document.querySelectorAll('.sheet.down button')].map(e => e.innerText.trim()).join()`)
}

// TestConsoleProjectsAndAudit creates and deletes a project, and finds both in the audit log.
func TestConsoleProjectsAndAudit(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.visit("/projects")
	c.See("Default project")
	c.Press("New project")
	c.Fill("name", "support agent")
	c.Press("Create")
	c.Press("Delete support agent")
	c.Fill("confirm", "support agent")
	c.Press("Delete project")
	c.Wait("the project gone", `!document.querySelector('[aria-label="Delete support agent"]')`)
	s.Call("POST", "/webhook/create", object{"name": "orders"}).Want(201)

	c.visit("/audit")
	c.See("Webhook created")
	c.Fill("kind", "project")
	c.See("Project deleted by " + installation.AdminEmail)
	c.See("Project created")
	c.misses("Webhook created")
	c.clickNth(`#content .list button`, 0)
	c.See("project.delete")
	c.See("127.0.0.1")
	c.visit("/audit?to=2020-01-01")
	c.See("Nothing matches")
	c.Clean()
}

// TestConsoleOAuthApp creates an app in steps, signs a user in with the secret that is shown, revokes the
// user, replaces the secret, changes the settings, and deletes the app.
func TestConsoleOAuthApp(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.visit("/oauth/clients")
	c.Press("New app")
	c.Fill("name", "Harbour")
	c.Fill("homepage", "https://harbour.example.com")
	c.Press("Continue")
	c.Fill("redirect", "http://harbour.example.com/callback")
	c.See("http is for loopback addresses")
	c.Fill("redirect", installation.RedirectURI)
	c.See("This address can be used.")
	c.Press("Continue")
	c.clickNth(`[data-level="webhook.write"]`, 0)
	c.See("Can delete webhooks")
	c.Press("Create app")
	a := installation.Application{ID: c.Text(".facts code"), Secret: c.Text(".secret pre")}
	c.Press("Show how to connect it")
	c.See(a.ID)
	c.Press("Go")
	c.See("oidc.NewProvider(ctx, " + chromium.Quote(s.URL) + ")")

	link := s.Call("GET", "/oidc/clients/"+a.ID, nil).Want(200).Text("link")
	c.Do(chromedp.Navigate(link))
	c.See("Harbour")
	c.Wait("the plot", `document.querySelector('.plot canvas')`)
	p := s.NewRelyingParty(a, "openid", "offline_access", "webhook:write")
	token, _ := p.SignIn(s.NewBrowser())
	c.visit("/oauth/clients/" + a.ID + "?tab=users")
	c.See("webhook:write")
	c.Press("Revoke the access of " + installation.AdminEmail)
	c.Fill("confirm", installation.AdminEmail)
	c.Press("Revoke access")
	c.See("Nobody has given consent yet")
	s.As(token.AccessToken).Call("GET", "/webhook/list", nil).Want(401)

	c.Press("Replace secret")
	c.Fill("confirm", "Harbour")
	c.Press("Replace secret")
	if secret := c.Text(".secret pre"); secret == a.Secret || len(secret) != 43 {
		t.Errorf("the new secret is %q", secret)
	}
	c.Press("I have stored it")
	c.visit("/oauth/clients/" + a.ID + "?tab=settings")
	c.Fill("name", "Harbour two")
	c.Fill("access_token_lifetime_seconds", "59")
	c.Press("Save")
	c.See("expected 60 to 86400 seconds")
	c.Fill("access_token_lifetime_seconds", "600")
	c.Press("Save")
	c.See("The app was changed.")
	s.Call("PUT", "/oidc/clients/"+a.ID, object{"description": "changed elsewhere"}).Want(200)
	c.Press("Save")
	c.See("Somebody else has changed this")
	c.Press("Delete")
	c.Fill("confirm", "Harbour two")
	c.Press("Delete OAuth app")
	c.See("No OAuth apps yet")
	s.Call("GET", "/oidc/clients/"+a.ID, nil).Want(404)
	c.Clean()
}

// TestConsoleIdentityPages stores texts that would run as scripts and opens every page with them, on a
// wide and on a narrow screen: nothing runs, and no page is wider than the screen. axe-core checks what
// TestConsolePagesAreAccessible does not open.
func TestConsoleIdentityPages(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	const script = `<img src=x onerror=smuggled()><script>smuggled()</script>{{smuggled()}}`
	project := s.Call("POST", "/cli/project", object{"name": script}).Want(201).Text("id")
	s.Call("POST", "/cli/apikey", object{"name": script, "projectId": project, "scopes": []string{"thread:read"}}).Want(201)
	s.Call("POST", "/cli/apikey", object{"name": "deploy"}).Want(201)
	s.Call("POST", "/oidc/org/members", object{"email": "grace@example.com", "role": "viewer", "first_name": script, "last_name": `"><svg onload=smuggled()>`}).Want(201)
	s.Call("POST", "/oidc/org/members", object{"email": "linus@example.com", "role": "admin", "first_name": "Linus"}).Want(201)
	a := s.NewApplication(object{"scopes": []string{"openid", "email", "offline_access", "webhook:read"}})
	s.SignIn(a)
	s.Call("PUT", "/oidc/clients/"+a.ID, object{"name": script, "description": script, "homepage_url": "https://x.example/'onclick=smuggled()"}).Want(200)
	c := signedIn(t, s)
	c.LoadAxe()
	for _, p := range []struct{ name, path, shows string }{
		{"keys", "/keys", script},
		{"key-new", "/keys?new=1", "Which program uses it"},
		{"members", "/members", script},
		{"member-new", "/members?new=1", "Steward sends no mail"},
		{"projects", "/projects", script},
		{"audit", "/audit", script},
		{"apps", "/oauth/clients", script},
		{"app-new", "/oauth/clients/new", "What is it?"},
		{"app", "/oauth/clients/" + a.ID, script},
		{"app-users", "/oauth/clients/" + a.ID + "?tab=users", "webhook:read"},
		{"app-connect", "/oauth/clients/" + a.ID + "?tab=connect", "openid-client"},
		{"app-settings", "/oauth/clients/" + a.ID + "?tab=settings", "Object storage"},
	} {
		c.visit(p.path)
		c.See(p.shows)
		switch p.name {
		case "key-new":
			c.clickNth(`input[name="limited"]`, 1)
			c.clickNth(`[data-level="storage.write"]`, 0)
			c.Check("console-" + p.name)
		case "audit":
			c.clickNth(`#content .list button`, 0)
			c.Check("console-" + p.name)
		default:
			c.CheckWidths("console-" + p.name)
		}
		c.Clean()
	}
}

// TestConsoleIdentityForMembers opens the pages as a member, who may not manage: a refusal says why.
func TestConsoleIdentityForMembers(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	a := s.NewApplication(object{})
	b, _ := s.Invite("grace@example.com", "member")
	c := newConsole(t, s)
	c.visit("/keys")
	c.signInAs(b.Email, b.Password)
	c.See("New API key")
	for _, path := range []string{"/members", "/audit"} {
		c.visit(path)
		c.See("Your role does not include this page")
	}
	c.visit("/oauth/clients/" + a.ID)
	c.See("Harbour Dashboard")
	c.See("Redirect URIs")
	if text := c.Text("#content"); strings.Contains(text, "Replace secret") || strings.Contains(text, "Delete") {
		t.Error("a member is offered what members may not do")
	}
	c.Clean()
}

// TestConsoleFormsKeepTheirContent submits forms while the server cannot be reached, and again when
// it can, without typing anything again. What the server refuses is shown with the id of the
// request and what to do.
func TestConsoleFormsKeepTheirContent(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	c := signedIn(t, s)
	for _, form := range []struct{ path, button, field, value, submit, shows string }{
		{"/keys", "New API key", "name", "deploy", "Create", "The API key was created"},
		{"/members", "Invite member", "email", "grace@example.com", "Invite", "The member was invited"},
		{"/projects", "New project", "name", "support", "Create", "The project was created."},
		{"/webhooks", "New webhook", "name", "orders", "Create", "The webhook was created"},
		{"/storage", "New bucket", "name", "photos", "Create", "S3_SECRET_ACCESS_KEY="},
		{"/databases", "New database", "name", "shop", "Create", "DATABASE_URL="},
		{"/key-value", "New store", "name", "carts", "Create", "REDIS_URL="},
	} {
		c.visit(form.path)
		c.Press(form.button)
		c.Fill(form.field, form.value)
		c.offline(true)
		c.Press(form.submit)
		c.See("The server cannot be reached")
		c.See("Then try again.")
		kept := chromium.Evaluate[string](c.Browser, `document.querySelector('dialog [name="`+form.field+`"]').value`)
		c.offline(false)
		if kept != form.value {
			t.Errorf("%s: the form has %q, want %q", form.path, kept, form.value)
		}
		c.Press(form.submit)
		c.See(form.shows)
	}
	c.visit("/members?new=1")
	c.Fill("email", "grace@example.com")
	c.Press("Invite")
	c.Wait("the refusal with the id of the request", `/^req_|^[0-9a-zA-Z_-]{10,}$/.test(document.querySelector('dialog .failure .mono')?.innerText) && document.querySelector('dialog .failure .soft')?.innerText.length > 10`)
	if kept := chromium.Evaluate[string](c.Browser, `document.querySelector('dialog [name="email"]').value`); kept != "grace@example.com" {
		t.Errorf("the form has %q", kept)
	}
}

// clickNth clicks one of the elements with a selector.
func (c *console) clickNth(selector string, n int) {
	c.T.Helper()
	element := fmt.Sprintf(`document.querySelectorAll(%s)[%d]`, chromium.Quote(selector), n)
	c.Wait(selector, element)
	c.Do(chromedp.Evaluate[chromedp.Void](element + `.click(); undefined`))
}

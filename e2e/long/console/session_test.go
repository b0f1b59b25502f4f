package console

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/internal/db"
	"steward/internal/waittest"
)

// callConsole sends a request as a page of the console does. Headers are pairs of name and value, which
// replace those of the page; an empty value removes one.
func callConsole(b *installation.Browser, method, path, body string, headers ...string) (status int, text string) {
	b.Steward.T.Helper()
	req, err := http.NewRequest(method, b.Steward.URL+path, strings.NewReader(body))
	b.Steward.Must(err)
	req.Header.Set("X-Steward-Console", "1")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Del(headers[i])
		if headers[i+1] != "" {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	res, err := b.HTTP.Do(req)
	b.Steward.Must(err)
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	b.Steward.Must(err)
	return res.StatusCode, string(all)
}

// wantConsole fails the test unless a request of the console has a status.
func wantConsole(b *installation.Browser, status int, method, path, body string, headers ...string) string {
	b.Steward.T.Helper()
	got, text := callConsole(b, method, path, body, headers...)
	if got != status {
		b.Steward.T.Fatalf("%s %s: %d %s, want %d", method, path, got, text, status)
	}
	return text
}

const regions = "/console/api/cli/region"

func TestConsoleSessionEndsWithTheProvidersSession(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		b := s.NewBrowser().EnterConsole()
		wantConsole(b, 200, "GET", regions, "")
		account := b.Do("GET", s.URL+"/account", nil)
		other := s.NewBrowser().EnterConsole()
		wantConsole(other, 200, "GET", regions, "")
		form := firstFormTo(t, account.Body, "/account/sign-out")
		if p := b.Do("POST", s.URL+"/account/sign-out", form); p.Status != 200 {
			t.Fatalf("got %d %s", p.Status, p.Body)
		}
		wantConsole(b, 401, "GET", regions, "")
		wantConsole(other, 401, "GET", regions, "")

		again := s.NewBrowser().EnterConsole()
		wantConsole(again, 204, "POST", "/console/sign-out", "")
		wantConsole(again, 401, "GET", regions, "")
		if p := again.Do("GET", s.URL+"/account", nil); !strings.Contains(p.Body, `action="/sign-in"`) {
			t.Error("the sign-out of the console leaves the user signed in at the provider")
		}
	})
}

// firstFormTo returns the values of the form of a page that has an action.
func firstFormTo(t *testing.T, body, action string) url.Values {
	t.Helper()
	for _, m := range installation.FirstForm.FindAllStringSubmatch(body, -1) {
		if m[2] == action {
			return installation.FormValues(m[3])
		}
	}
	t.Fatalf("no form with the action %s", action)
	return nil
}

func TestConsoleFollowsRoleAndMembership(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		b, userID := s.Invite("grace@example.com", "member")
		b.EnterConsole()
		wantConsole(b, 201, "POST", "/console/api/webhook/create", `{"name":"one"}`)
		s.Call("PUT", "/oidc/org/members/"+userID, object{"role": "viewer"}).Want(200)
		if text := wantConsole(b, 403, "POST", "/console/api/webhook/create", `{"name":"two"}`); !strings.Contains(text, "the role owner, admin or member is required") {
			t.Errorf("got %s", text)
		}
		wantConsole(b, 200, "GET", "/console/api/webhook/list", "")
		s.Call("PUT", "/oidc/org/members/"+userID, object{"disabled": true}).Want(200)
		wantConsole(b, 401, "GET", "/console/api/webhook/list", "")
	})
}

func TestConsoleRefusesOtherSites(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	b := s.NewBrowser().EnterConsole()
	const create = "/console/api/webhook/create"
	wantConsole(b, 403, "POST", create, `{"name":"csrf"}`, "X-Steward-Console", "")
	wantConsole(b, 403, "POST", create, `{"name":"csrf"}`, "Sec-Fetch-Site", "cross-site")
	wantConsole(b, 403, "POST", create, `{"name":"csrf"}`, "Sec-Fetch-Site", "", "Origin", "https://evil.example")
	wantConsole(b, 403, "POST", create, `{"name":"csrf"}`, "Sec-Fetch-Site", "", "Origin", "null")
	wantConsole(b, 403, "POST", "/console/sign-out", "", "Sec-Fetch-Site", "same-site")
	wantConsole(b, 401, "GET", regions, "", "Authorization", "Bearer "+s.Key)
	wantConsole(s.NewBrowser(), 401, "GET", regions, "", "Authorization", "Bearer "+s.Key)
	hook := s.NewHook("kept").ID
	for _, header := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
		wantConsole(b, 405, "GET", "/console/api/webhook/delete/"+hook+"?_method=DELETE", "", header, "DELETE")
		wantConsole(b, 405, "POST", "/console/api/webhook/delete/"+hook+"?_method=DELETE", "", header, "DELETE")
	}
	s.Call("GET", "/webhook/get/"+hook, nil).Want(200)
	s.Call("DELETE", "/webhook/delete/"+hook, nil).Want(204)
	wantConsole(b, 200, "GET", regions, "")
	if text := wantConsole(b, 200, "GET", "/console/api/webhook/list", ""); strings.TrimSpace(text) != "[]" {
		t.Errorf("another site has created %s", text)
	}
	// The cookie is worth nothing elsewhere, and a preflight is not answered.
	wantConsole(b, 401, "GET", "/cli/region", "")
	wantConsole(b, 401, "GET", "/sdk/cli/region", "")
	status, _ := callConsole(b, "OPTIONS", create, "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST")
	if status < 400 {
		t.Errorf("a preflight is answered with %d", status)
	}
}

func testServesTheRouteTableOnly(t *testing.T, s *installation.Steward) {
	b := s.NewBrowser().EnterConsole()
	for _, path := range []string{"/thread/ws", "/sdk/cli/region", "/account", "/authorize", "/jwks", "/console/", "/healthz", "/in/wh_1/x", "/db/x/"} {
		wantConsole(b, 404, "GET", "/console/api"+path, "")
	}
	if p := b.Do("GET", s.URL+"/console/api/cli/region", nil); p.Status != 403 {
		t.Errorf("a link to the API: %d %s", p.Status, p.Body)
	}
}

func testReturnsToItsOwnPagesOnly(t *testing.T, s *installation.Steward) {
	for _, to := range []string{"https://evil.example/console/", "//evil.example/console/", `/\evil.example`, "/console/../account", "javascript:alert(1)", "/%2fevil.example", "/console/%5c%5cevil.example", "data:text/html,x"} {
		b := s.NewBrowser()
		p := b.Do("GET", s.URL+"/console/sign-in?return="+url.QueryEscape(to), nil)
		p = b.Submit(p, map[string]string{"email": b.Email, "password": b.Password})
		p = b.Do("GET", s.URL+p.Location, nil)
		if p.Location != "/console/" {
			t.Errorf("%q leads to %q", to, p.Location)
		}
	}
}

func TestConsoleWithSeveralOrganizations(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		other := s.SecondOrganization()
		otherID := other.OrgID
		hook := other.Call("POST", "/webhook/create", object{"name": "theirs"}).Want(201).Text("id")
		b := s.NewBrowser().EnterConsole()
		const header = "X-Steward-Organization"
		wantConsole(b, 403, "GET", "/console/api/webhook/list", "", header, otherID)
		wantConsole(b, 404, "GET", "/console/api/webhook/get/"+hook, "", header, s.OrgID)
		wantConsole(b, 404, "GET", "/console/api/webhook/get/"+hook, "")

		s.Offline(func(ctx context.Context, d *db.DB) {
			s.Must(d.Write(ctx, func(tx *db.Tx) error {
				_, err := tx.Exec(`INSERT INTO members (org_id, user_id, role, version, created_at, updated_at)
					SELECT $1, id, 'viewer', 1, 0, 0 FROM users WHERE email = $2`, otherID, installation.AdminEmail)
				return err
			}))
		})
		b = s.NewBrowser().EnterConsole()
		text := wantConsole(b, 200, "GET", "/console/api/cli/organization", "")
		if !strings.Contains(text, otherID) || !strings.Contains(text, s.OrgID) {
			t.Errorf("the organizations are %s", text)
		}
		wantConsole(b, 200, "GET", "/console/api/webhook/get/"+hook, "", header, otherID)
		wantConsole(b, 403, "POST", "/console/api/webhook/create", `{"name":"x"}`, header, otherID)
		wantConsole(b, 404, "GET", "/console/api/webhook/get/"+hook, "", header, s.OrgID)
		wantConsole(b, 201, "POST", "/console/api/webhook/create", `{"name":"x"}`, header, s.OrgID)
	})
}

// TestConsoleSessionEndsOnEveryReplica ends a session on one replica and uses it on the other.
func TestConsoleSessionEndsOnEveryReplica(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, process.Databases[1])
	r := s.Replica()
	b := s.NewBrowser().EnterConsole()
	there := r.NewBrowser() // the same host, so the same cookies
	u, err := url.Parse(s.URL + "/console/api/")
	s.Must(err)
	there.HTTP.Jar.SetCookies(u, b.HTTP.Jar.Cookies(u))
	wantConsole(there, 200, "GET", regions, "")
	wantConsole(b, 204, "POST", "/console/sign-out", "")
	waittest.Within(t, time.Second, "the end of the session on the other replica", func() bool {
		status, _ := callConsole(there, "GET", regions, "")
		return status == 401
	})
}

// testRootLeadsBrowsersToTheConsole opens the base URL as Chromium and as curl do. The shell of the
// console needs no session.
func testRootLeadsBrowsersToTheConsole(t *testing.T, s *installation.Steward) {
	for accept, want := range map[string]string{
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": "/console/", "*/*": "", "": "", "application/json": "",
	} {
		req, err := http.NewRequest("GET", s.URL+"/", nil)
		s.Must(err)
		req.Header.Set("Accept", accept)
		res, err := s.NewBrowser().HTTP.Do(req)
		s.Must(err)
		s.Must(res.Body.Close())
		if res.Header.Get("Location") != want || want != "" && res.StatusCode != 303 {
			t.Errorf("Accept: %s: %d %s", accept, res.StatusCode, res.Header.Get("Location"))
		}
	}
	if p := s.NewBrowser().Do("GET", s.URL+"/console/webhooks", nil); p.Status != 200 || !strings.Contains(p.Body, `id="app"`) {
		t.Errorf("the shell without a session: %d %s", p.Status, p.Body)
	}
	wantConsole(s.NewBrowser(), 401, "GET", regions, "")
}

// TestConsoleTailLastsAsLongAsTheSession follows a webhook as the page does. A role that changes
// does not end the stream of others; the end of the session does, also on another replica.
func TestConsoleTailLastsAsLongAsTheSession(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		at := s
		if s.Database != "" {
			at = s.Replica()
		}
		h := s.NewHook("orders")
		_, member := s.Invite("grace@example.com", "member")
		b := s.NewBrowser().EnterConsole()
		lines, ended := tailWebhook(b, at, h.ID)
		s.Call("PUT", "/oidc/org/members/"+member, object{"role": "viewer"}).Want(200)
		receipt := s.Ingest(h, `{"order": 1042}`)
		found := false
		for line := range lines {
			if found = strings.Contains(line, receipt); found {
				break
			}
		}
		if !found {
			t.Fatal("the stream has ended before the receipt")
		}
		wantConsole(b, 204, "POST", "/console/sign-out", "")
		for range lines { // until it is closed
			continue
		}
		_ = waittest.Receive(t, "the end of the stream", ended) // an error if it was cut
	})
}

// tailWebhook follows a webhook at a replica as a page of the console does, and sends the lines of the stream.
func tailWebhook(b *installation.Browser, at *installation.Steward, webhookID string) (lines chan string, ended chan error) {
	b.Steward.T.Helper()
	u, err := url.Parse(b.Steward.URL + "/console/api/")
	b.Steward.Must(err)
	req, err := http.NewRequest("GET", at.URL+"/console/api/webhook/tail/"+webhookID, nil)
	b.Steward.Must(err)
	req.Header.Set("X-Steward-Console", "1")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, cookie := range b.HTTP.Jar.Cookies(u) {
		if cookie.Name == "steward_console" {
			req.AddCookie(cookie)
		}
	}
	res, err := installation.Client.Do(req)
	b.Steward.Must(err)
	if res.StatusCode != 200 {
		b.Steward.T.Fatalf("the tail responds with %s", res.Status)
	}
	b.Steward.T.Cleanup(func() { _ = res.Body.Close() })
	lines, ended = make(chan string), make(chan error, 1)
	go func() {
		scanner := bufio.NewScanner(res.Body)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
		close(lines)
		ended <- scanner.Err()
	}()
	return lines, ended
}

package e2e

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"steward/e2e/process"
	"steward/internal/db"
	"steward/internal/waittest"
)

// enter signs a browser in to the console.
func (b *browser) enter() *browser {
	b.s.t.Helper()
	p := b.do("GET", b.s.URL+"/console/sign-in?return=/console/webhooks", nil)
	if p.status == 200 { // it asks for the password
		p = b.submit(p, map[string]string{"email": b.email, "password": b.password})
		p = b.do("GET", b.s.URL+p.location, nil)
	}
	if p.status != 303 || p.location != "/console/webhooks" {
		b.s.t.Fatalf("the sign-in ends with %d at %q: %s", p.status, p.location, p.body)
	}
	return b
}

// api sends a request as a page of the console does. Headers are pairs of name and value, which
// replace those of the page; an empty value removes one.
func (b *browser) api(method, path, body string, headers ...string) (status int, text string) {
	b.s.t.Helper()
	req, err := http.NewRequest(method, b.s.URL+path, strings.NewReader(body))
	b.s.must(err)
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
	res, err := b.http.Do(req)
	b.s.must(err)
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	b.s.must(err)
	return res.StatusCode, string(all)
}

// wants fails the test unless a request of the console has a status.
func (b *browser) wants(status int, method, path, body string, headers ...string) string {
	b.s.t.Helper()
	got, text := b.api(method, path, body, headers...)
	if got != status {
		b.s.t.Fatalf("%s %s: %d %s, want %d", method, path, got, text, status)
	}
	return text
}

const regions = "/console/api/cli/region"

func TestConsoleSessionEndsWithTheProvidersSession(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		b := s.browser().enter()
		b.wants(200, "GET", regions, "")
		account := b.do("GET", s.URL+"/account", nil)
		other := s.browser().enter()
		other.wants(200, "GET", regions, "")
		form := firstFormTo(t, account.body, "/account/sign-out")
		if p := b.do("POST", s.URL+"/account/sign-out", form); p.status != 200 {
			t.Fatalf("got %d %s", p.status, p.body)
		}
		b.wants(401, "GET", regions, "")
		other.wants(401, "GET", regions, "")

		again := s.browser().enter()
		again.wants(204, "POST", "/console/sign-out", "")
		again.wants(401, "GET", regions, "")
		if p := again.do("GET", s.URL+"/account", nil); !strings.Contains(p.body, `action="/sign-in"`) {
			t.Error("the sign-out of the console leaves the user signed in at the provider")
		}
	})
}

// firstFormTo returns the values of the form of a page that has an action.
func firstFormTo(t *testing.T, body, action string) url.Values {
	t.Helper()
	for _, m := range firstForm.FindAllStringSubmatch(body, -1) {
		if m[2] == action {
			return formValues(m[3])
		}
	}
	t.Fatalf("no form with the action %s", action)
	return nil
}

func TestConsoleFollowsRoleAndMembership(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		b, userID := s.invite("grace@example.com", "member")
		b.enter()
		b.wants(201, "POST", "/console/api/webhook/create", `{"name":"one"}`)
		s.call("PUT", "/oidc/org/members/"+userID, object{"role": "viewer"}).want(200)
		if text := b.wants(403, "POST", "/console/api/webhook/create", `{"name":"two"}`); !strings.Contains(text, "the role owner, admin or member is required") {
			t.Errorf("got %s", text)
		}
		b.wants(200, "GET", "/console/api/webhook/list", "")
		s.call("PUT", "/oidc/org/members/"+userID, object{"disabled": true}).want(200)
		b.wants(401, "GET", "/console/api/webhook/list", "")
	})
}

func TestConsoleRefusesOtherSites(t *testing.T) {
	t.Parallel()
	s := startWithOwner(t, "sqlite")
	b := s.browser().enter()
	const create = "/console/api/webhook/create"
	b.wants(403, "POST", create, `{"name":"csrf"}`, "X-Steward-Console", "")
	b.wants(403, "POST", create, `{"name":"csrf"}`, "Sec-Fetch-Site", "cross-site")
	b.wants(403, "POST", create, `{"name":"csrf"}`, "Sec-Fetch-Site", "", "Origin", "https://evil.example")
	b.wants(403, "POST", create, `{"name":"csrf"}`, "Sec-Fetch-Site", "", "Origin", "null")
	b.wants(403, "POST", "/console/sign-out", "", "Sec-Fetch-Site", "same-site")
	b.wants(401, "GET", regions, "", "Authorization", "Bearer "+s.key)
	s.browser().wants(401, "GET", regions, "", "Authorization", "Bearer "+s.key)
	hook := s.hook("kept").ID
	for _, header := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
		b.wants(405, "GET", "/console/api/webhook/delete/"+hook+"?_method=DELETE", "", header, "DELETE")
		b.wants(405, "POST", "/console/api/webhook/delete/"+hook+"?_method=DELETE", "", header, "DELETE")
	}
	s.call("GET", "/webhook/get/"+hook, nil).want(200)
	s.call("DELETE", "/webhook/delete/"+hook, nil).want(204)
	b.wants(200, "GET", regions, "")
	if text := b.wants(200, "GET", "/console/api/webhook/list", ""); strings.TrimSpace(text) != "[]" {
		t.Errorf("another site has created %s", text)
	}
	// The cookie is worth nothing elsewhere, and a preflight is not answered.
	b.wants(401, "GET", "/cli/region", "")
	b.wants(401, "GET", "/sdk/cli/region", "")
	status, _ := b.api("OPTIONS", create, "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST")
	if status < 400 {
		t.Errorf("a preflight is answered with %d", status)
	}
}

func TestConsoleServesTheRouteTableOnly(t *testing.T) {
	t.Parallel()
	s := startWithOwner(t, "sqlite")
	b := s.browser().enter()
	for _, path := range []string{"/thread/ws", "/sdk/cli/region", "/account", "/authorize", "/jwks", "/console/", "/healthz", "/in/wh_1/x", "/db/x/"} {
		b.wants(404, "GET", "/console/api"+path, "")
	}
	if p := b.do("GET", s.URL+"/console/api/cli/region", nil); p.status != 403 {
		t.Errorf("a link to the API: %d %s", p.status, p.body)
	}
}

func TestConsoleReturnsToItsOwnPagesOnly(t *testing.T) {
	t.Parallel()
	s := startWithOwner(t, "sqlite")
	for _, to := range []string{"https://evil.example/console/", "//evil.example/console/", `/\evil.example`, "/console/../account", "javascript:alert(1)", "/%2fevil.example", "/console/%5c%5cevil.example", "data:text/html,x"} {
		b := s.browser()
		p := b.do("GET", s.URL+"/console/sign-in?return="+url.QueryEscape(to), nil)
		p = b.submit(p, map[string]string{"email": b.email, "password": b.password})
		p = b.do("GET", s.URL+p.location, nil)
		if p.location != "/console/" {
			t.Errorf("%q leads to %q", to, p.location)
		}
	}
}

func TestConsoleWithSeveralOrganizations(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		other := s.secondOrganization()
		otherID := other.orgID
		hook := other.call("POST", "/webhook/create", object{"name": "theirs"}).want(201).text("id")
		b := s.browser().enter()
		const header = "X-Steward-Organization"
		b.wants(403, "GET", "/console/api/webhook/list", "", header, otherID)
		b.wants(404, "GET", "/console/api/webhook/get/"+hook, "", header, s.orgID)
		b.wants(404, "GET", "/console/api/webhook/get/"+hook, "")

		s.offline(func(ctx context.Context, d *db.DB) {
			s.must(d.Write(ctx, func(tx *db.Tx) error {
				_, err := tx.Exec(`INSERT INTO members (org_id, user_id, role, version, created_at, updated_at)
					SELECT $1, id, 'viewer', 1, 0, 0 FROM users WHERE email = $2`, otherID, adminEmail)
				return err
			}))
		})
		b = s.browser().enter()
		text := b.wants(200, "GET", "/console/api/cli/organization", "")
		if !strings.Contains(text, otherID) || !strings.Contains(text, s.orgID) {
			t.Errorf("the organizations are %s", text)
		}
		b.wants(200, "GET", "/console/api/webhook/get/"+hook, "", header, otherID)
		b.wants(403, "POST", "/console/api/webhook/create", `{"name":"x"}`, header, otherID)
		b.wants(404, "GET", "/console/api/webhook/get/"+hook, "", header, s.orgID)
		b.wants(201, "POST", "/console/api/webhook/create", `{"name":"x"}`, header, s.orgID)
	})
}

// TestConsoleSessionEndsOnEveryReplica ends a session on one replica and uses it on the other.
func TestConsoleSessionEndsOnEveryReplica(t *testing.T) {
	t.Parallel()
	s := startWithOwner(t, process.Databases[1])
	r := s.replica()
	b := s.browser().enter()
	there := r.browser() // the same host, so the same cookies
	u, err := url.Parse(s.URL + "/console/api/")
	s.must(err)
	there.http.Jar.SetCookies(u, b.http.Jar.Cookies(u))
	there.wants(200, "GET", regions, "")
	b.wants(204, "POST", "/console/sign-out", "")
	within(t, time.Second, "the end of the session on the other replica", func() bool {
		status, _ := there.api("GET", regions, "")
		return status == 401
	})
}

// TestRootLeadsBrowsersToTheConsole opens the base URL as Chromium and as curl do. The shell of the
// console needs no session.
func TestRootLeadsBrowsersToTheConsole(t *testing.T) {
	t.Parallel()
	s := startWithOwner(t, "sqlite")
	for accept, want := range map[string]string{
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": "/console/", "*/*": "", "": "", "application/json": "",
	} {
		req, err := http.NewRequest("GET", s.URL+"/", nil)
		s.must(err)
		req.Header.Set("Accept", accept)
		res, err := s.browser().http.Do(req)
		s.must(err)
		s.must(res.Body.Close())
		if res.Header.Get("Location") != want || want != "" && res.StatusCode != 303 {
			t.Errorf("Accept: %s: %d %s", accept, res.StatusCode, res.Header.Get("Location"))
		}
	}
	if p := s.browser().do("GET", s.URL+"/console/webhooks", nil); p.status != 200 || !strings.Contains(p.body, `id="app"`) {
		t.Errorf("the shell without a session: %d %s", p.status, p.body)
	}
	s.browser().wants(401, "GET", regions, "")
}

// TestConsoleTailLastsAsLongAsTheSession follows a webhook as the page does. A role that changes
// does not end the stream of others; the end of the session does, also on another replica.
func TestConsoleTailLastsAsLongAsTheSession(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		at := s
		if s.Database != "" {
			at = s.replica()
		}
		h := s.hook("orders")
		_, member := s.invite("grace@example.com", "member")
		b := s.browser().enter()
		lines, ended := b.tail(at, h.ID)
		s.call("PUT", "/oidc/org/members/"+member, object{"role": "viewer"}).want(200)
		receipt := s.ingest(h, `{"order": 1042}`)
		found := false
		for line := range lines {
			if found = strings.Contains(line, receipt); found {
				break
			}
		}
		if !found {
			t.Fatal("the stream has ended before the receipt")
		}
		b.wants(204, "POST", "/console/sign-out", "")
		for range lines { // until it is closed
			continue
		}
		_ = waittest.Receive(t, "the end of the stream", ended) // an error if it was cut
	})
}

// tail follows a webhook at a replica as a page of the console does, and sends the lines of the stream.
func (b *browser) tail(at *steward, webhookID string) (lines chan string, ended chan error) {
	b.s.t.Helper()
	u, err := url.Parse(b.s.URL + "/console/api/")
	b.s.must(err)
	req, err := http.NewRequest("GET", at.URL+"/console/api/webhook/tail/"+webhookID, nil)
	b.s.must(err)
	req.Header.Set("X-Steward-Console", "1")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, cookie := range b.http.Jar.Cookies(u) {
		if cookie.Name == "steward_console" {
			req.AddCookie(cookie)
		}
	}
	res, err := client.Do(req)
	b.s.must(err)
	if res.StatusCode != 200 {
		b.s.t.Fatalf("the tail responds with %s", res.Status)
	}
	b.s.t.Cleanup(func() { _ = res.Body.Close() })
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

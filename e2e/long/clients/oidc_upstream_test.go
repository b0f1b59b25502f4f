package clients

import (
	"bufio"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"steward/e2e/installation"
)

// startStranger starts an OpenID Connect provider on oidc-provider, at which an installation has a secret.
func startStranger(s *installation.Steward, secret string) (issuer string) {
	s.T.Helper()
	if _, err := os.Stat("../../oidc/node_modules/oidc-provider"); err != nil {
		s.T.Fatal("oidc-provider is not installed: run `make deps`")
	}
	cmd := exec.CommandContext(s.T.Context(), "node", "../../oidc/provider.mjs", s.URL+"/sign-in/upstream/callback", secret)
	var problems strings.Builder
	cmd.Stderr = &problems
	in, err := cmd.StdinPipe()
	s.Must(err)
	out, err := cmd.StdoutPipe()
	s.Must(err)
	s.Must(cmd.Start())
	s.T.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var printed struct{ Issuer string }
		if json.Unmarshal(lines.Bytes(), &printed) == nil && printed.Issuer != "" {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return printed.Issuer
		}
	}
	s.T.Fatalf("oidc-provider has stopped: %s", problems.String())
	return ""
}

var (
	strangerForm  = regexp.MustCompile(`(?s)<form[^>]* action="([^"]+)"[^>]*>.*?name="prompt" value="(\w+)"`)
	strangerLogin = url.Values{"login": {"anna"}, "password": {"any"}}
)

// signInWithStranger opens a link and fills in the forms of oidc-provider. It returns the last page.
func signInWithStranger(s *installation.Steward, browser *http.Client, link string) (address, body string) {
	s.T.Helper()
	resp, err := browser.Get(link)
	s.Must(err)
	for range 4 {
		text, err := io.ReadAll(resp.Body)
		s.Must(err)
		resp.Body.Close()
		form := strangerForm.FindStringSubmatch(string(text))
		if form == nil {
			return resp.Request.URL.String(), string(text)
		}
		fields := url.Values{"prompt": {form[2]}}
		if form[2] == "login" {
			fields["login"] = strangerLogin["login"]
			fields["password"] = strangerLogin["password"]
		}
		action, err := resp.Request.URL.Parse(html.UnescapeString(form[1]))
		s.Must(err)
		resp, err = browser.PostForm(action.String(), fields)
		s.Must(err)
	}
	s.T.Fatal("oidc-provider asks again and again")
	return "", ""
}

func TestStrangerSignsMembersIn(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		const secret = "a secret of at least 32 characters"
		issuer := startStranger(s, secret)
		made := s.Call("POST", "/oidc/upstream", object{
			"name": "Stranger", "issuer": issuer, "client_id": "steward", "client_secret": secret, "default_role": "viewer",
			"scopes": []string{"openid", "profile", "email", "teams"}, "groups_claim": "teams",
			"group_roles": []object{{"group": "leads", "role": "admin"}},
		}).Want(201)
		if strings.Contains(string(made.Body), secret) {
			t.Error("the response has the client secret")
		}
		for range 2 { // the second time, the user is known
			jar, err := cookiejar.New(nil)
			s.Must(err)
			browser := &http.Client{Jar: jar}
			address, page := signInWithStranger(s, browser, made.Text("sign_in_url"))
			if !strings.HasPrefix(address, s.URL+"/console/") {
				t.Fatalf("the browser is at %s: %s", address, page)
			}
			send := func(method, path, body string) (status int, text string) {
				r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
				s.Must(err)
				r.Header.Set("X-Steward-Console", "1")
				r.Header.Set("Content-Type", "application/json")
				resp, err := browser.Do(r)
				s.Must(err)
				defer resp.Body.Close()
				read, err := io.ReadAll(resp.Body)
				s.Must(err)
				return resp.StatusCode, string(read)
			}
			_, text := send("GET", "/account", "")
			if !strings.Contains(text, "You signed in with your organization") || strings.Contains(text, "/account/authenticator") {
				t.Errorf("the account page shows %s", text)
			}
			if status, text := send("GET", "/account/authenticator", ""); status != 403 {
				t.Errorf("the page to add an authenticator app: %d %s", status, text)
			}
			status, text := send("POST", "/console/api/cli/organization", `{"name": "Mine"}`)
			if status != 403 || !strings.Contains(text, "the provider of an organization") {
				t.Errorf("another organization: %d %s", status, text)
			}
		}
		var members []struct {
			LastName *string `json:"last_name"`
			Role     string
		}
		s.Call("GET", "/oidc/org/members", nil).Want(200).Decode(&members)
		var found []string
		for _, m := range members {
			if m.LastName != nil && *m.LastName == "Stranger" {
				found = append(found, m.Role)
			}
		}
		if len(found) != 1 || found[0] != "admin" {
			t.Errorf("the roles of new members are %v", found)
		}
	})
}

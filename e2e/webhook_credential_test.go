package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCredentialsOfReceipts: viewers do not see credentials that senders put into headers, neither in
// lists, single receipts nor tails, on both faces. Another organization sees nothing.
func TestCredentialsOfReceipts(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		b, userID := s.invite("grace@example.com", "member")
		scopes := []string{"openid", "apikey:write", "webhook:read"}
		token, _ := s.relyingParty(s.application(object{"scopes": scopes}), scopes...).signIn(b)
		byToken := s.as(token.AccessToken)
		byKey := s.as(byToken.call("POST", "/cli/apikey", object{"name": "k"}).want(201).text("value"))
		h := s.hook("orders")
		res, err := s.send("POST", h.path, strings.NewReader("{}"), "Authorization", "Bearer hidden", "Cookie", "a=hidden",
			"X-Api-Key", "hidden", "X-Hub-Signature", "hidden", "X-Shown", "shown")
		s.must(err)
		receipt := res.want(200).text("id")
		since := "?since=2026-01-01T00:00:00Z&follow=false"
		paths := []string{
			"/webhook/receipt-list/" + h.ID, "/webhook/receipt-get/" + h.ID + "/" + receipt,
			"/webhook/tail" + since, "/webhook/tail/" + h.ID + since,
		}
		check := func(role string, hidden, masked int) {
			t.Helper()
			for _, caller := range []*steward{byToken, byKey} {
				for _, path := range paths {
					for _, face := range []string{"", "/sdk"} {
						text := string(caller.call("GET", face+path, nil).want(200).body)
						if strings.Count(text, "hidden") != hidden || strings.Count(text, `"***"`) != masked || !strings.Contains(text, `"x-shown":"shown"`) {
							t.Errorf("%s%s: a %s gets %s", face, path, role, text)
						}
					}
				}
			}
		}
		check("member", 4, 0)
		s.call("PUT", "/oidc/org/members/"+userID, object{"role": "viewer"}).want(200)
		check("viewer", 0, 4)
		s.call("PUT", "/oidc/org/members/"+userID, object{"role": "admin"}).want(200)
		check("admin", 4, 0)
		other := s.secondOrganization()
		for _, path := range paths[:2] {
			other.call("GET", path, nil).want(404)
		}
	})
}

// TestHeadersAreNotInTheDataDirectory looks for a credential in the files of the database.
func TestHeadersAreNotInTheDataDirectory(t *testing.T) {
	t.Parallel()
	s := start(t, "sqlite")
	k, h := newSink(t), s.hook("orders")
	s.destination(h, k.URL+"/hook")
	const value = "a-credential-of-the-sender"
	res, err := s.send("POST", h.path, strings.NewReader("the body in plain text"), "X-Api-Key", value)
	s.must(err)
	res.want(200)
	if got := k.wait("/hook", 1)[0].header.Get("X-Api-Key"); got != value {
		t.Errorf("the destination got %q", got)
	}
	s.stop()
	files := map[string]bool{value: false, "the body in plain text": false}
	s.must(filepath.Walk(s.Dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		for text := range files {
			files[text] = files[text] || bytes.Contains(content, []byte(text))
		}
		return err
	}))
	if files[value] || !files["the body in plain text"] {
		t.Errorf("found: %v", files)
	}
}

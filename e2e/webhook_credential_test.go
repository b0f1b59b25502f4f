package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/sink"
)

// TestCredentialsOfReceipts: viewers do not see credentials that senders put into headers, neither in
// lists, searches, exports, single receipts nor tails, on both faces. Another organization sees nothing.
func TestCredentialsOfReceipts(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	b, userID := s.Invite("grace@example.com", "member")
	scopes := []string{"openid", "apikey:write", "webhook:read"}
	token, _ := s.NewRelyingParty(s.NewApplication(object{"scopes": scopes}), scopes...).SignIn(b)
	byToken := s.As(token.AccessToken)
	byKey := s.As(byToken.Call("POST", "/cli/apikey", object{"name": "k"}).Want(201).Text("value"))
	h := s.NewHook("orders")
	res, err := s.Send("POST", h.Path, strings.NewReader("{}"), "Authorization", "Bearer hidden", "Cookie", "a=hidden",
		"X-Api-Key", "hidden", "X-Hub-Signature", "hidden", "X-Shown", "shown")
	s.Must(err)
	receipt := res.Want(200).Text("id")
	since := "?since=2026-01-01T00:00:00Z&follow=false"
	paths := []string{
		"/webhook/receipt-export/" + h.ID, "/webhook/receipt-list/" + h.ID + "?q=%7B%7D",
		"/webhook/receipt-list/" + h.ID, "/webhook/receipt-get/" + h.ID + "/" + receipt,
		"/webhook/tail" + since, "/webhook/tail/" + h.ID + since,
	}
	check := func(role string, hidden, masked int) {
		t.Helper()
		for _, caller := range []*installation.Steward{byToken, byKey} {
			for _, path := range paths {
				for _, face := range []string{"", "/sdk"} {
					text := string(caller.Call("GET", face+path, nil).Want(200).Body)
					if strings.Count(text, "hidden") != hidden || strings.Count(text, `"***"`) != masked || !strings.Contains(text, `"x-shown":"shown"`) {
						t.Errorf("%s%s: a %s gets %s", face, path, role, text)
					}
				}
			}
		}
	}
	check("member", 4, 0)
	s.Call("PUT", "/oidc/org/members/"+userID, object{"role": "viewer"}).Want(200)
	check("viewer", 0, 4)
	s.Call("PUT", "/oidc/org/members/"+userID, object{"role": "admin"}).Want(200)
	check("admin", 4, 0)
	other := s.SecondOrganization()
	for _, path := range append(paths[:4], "/webhook/receipt-neighbors/"+h.ID+"/"+receipt) {
		other.Call("GET", path, nil).Want(404)
	}
	if got := s.Total("/webhook/receipt-list/" + h.ID + "?q=hidden"); got != "0" {
		t.Errorf("a search finds %s headers", got)
	}
}

// TestHeadersAreNotInTheDataDirectory looks for a credential in the files of the database.
func TestHeadersAreNotInTheDataDirectory(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	k, h := sink.New(t), s.NewHook("orders")
	s.NewDestination(h, k.URL+"/hook")
	const value = "a-credential-of-the-sender"
	res, err := s.Send("POST", h.Path, strings.NewReader("the body in plain text"), "X-Api-Key", value)
	s.Must(err)
	res.Want(200)
	if got := k.Wait("/hook", 1)[0].Header.Get("X-Api-Key"); got != value {
		t.Errorf("the destination got %q", got)
	}
	s.Stop()
	files := map[string]bool{value: false, "the body in plain text": false}
	s.Must(filepath.Walk(s.Dir, func(path string, info os.FileInfo, err error) error {
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

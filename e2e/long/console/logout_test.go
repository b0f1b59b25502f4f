package console

import (
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"steward/e2e/installation"
)

// TestConsoleLogoutSettings registers the logout URIs of an app, and has it exchange tokens.
func TestConsoleLogoutSettings(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	a := s.NewApplication(object{"redirect_uris": []string{"https://rp.example.com/callback"}})
	c := signedIn(t, s)
	c.visit("/oauth/clients/" + a.ID + "?tab=settings")
	c.Fill("backchannel", "http://rp.example.com/out")
	c.See("expected an https URL")
	c.Fill("backchannel", "https://rp.example.com/out")
	c.Fill("frontchannel", "https://rp.example.com/bye")
	c.Do(chromedp.Click(chromedp.CSS(`input[name="exchanges"]`)))
	c.Press("Save")
	c.See("The app was changed.")
	stored := s.Call("GET", "/oidc/clients/"+a.ID, nil).Want(200)
	if stored.Text("backchannel_logout_uri") != "https://rp.example.com/out" ||
		stored.Text("frontchannel_logout_uri") != "https://rp.example.com/bye" {
		t.Errorf("got %s", stored.Body)
	}
	grants, _ := stored.Get("grant_types").([]any)
	if !slices.Contains(grants, any("urn:ietf:params:oauth:grant-type:token-exchange")) {
		t.Errorf("got %v", grants)
	}
	c.Clean()
}

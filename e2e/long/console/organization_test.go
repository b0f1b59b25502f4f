package console

import (
	"testing"

	"github.com/chromedp/chromedp"

	"steward/e2e/chromium"
	"steward/e2e/installation"
)

// TestConsoleSwitchesBetweenOrganizations creates a second organization, and shows that neither shows
// anything of the other.
func TestConsoleSwitchesBetweenOrganizations(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	s.Call("POST", "/webhook/create", object{"name": "first-hook"}).Want(201)
	c := signedIn(t, s)
	c.createOrganization("Second")
	c.visit("/webhooks?new=1")
	c.Fill("name", "second-hook")
	c.Press("Create")
	c.at("/webhooks", "second-hook")
	c.hides("first-hook")

	// By the keyboard, with the menu below the navigation.
	c.Do(chromedp.Evaluate[chromedp.Void](`document.querySelector('.side button.who').focus(); undefined`))
	c.Do(chromedp.KeyEvent("\r"))
	c.Wait("the organizations", `document.querySelectorAll('.sheet button[aria-pressed]').length > 1`)
	c.Do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll('.sheet button[aria-pressed=false]')]
		.find(b => b.innerText.includes('Default organization')).focus(); undefined`))
	c.Do(chromedp.KeyEvent("\r"))
	c.Wait("the first organization", `document.querySelector('.side .who')?.innerText.includes('Default organization')`)
	c.at("/webhooks", "first-hook")
	c.hides("second-hook")
	c.visit("/search")
	c.at("/webhooks", "first-hook") // the choice is remembered
	c.Clean()

	// An organization of others is refused, and the console goes on with one of the user's own.
	other := s.SecondOrganization()
	c.Do(chromedp.Evaluate[chromedp.Void](`localStorage.setItem('steward.organization', ` + chromium.Quote(other.OrgID) + `); undefined`))
	c.at("/webhooks", "hook")
	if shown := c.Text(".side .who"); shown == "" {
		t.Error("no organization is shown")
	}
}

// createOrganization creates an organization, which is shown from then on.
func (c *console) createOrganization(name string) {
	c.T.Helper()
	c.visit("/organizations?new=1")
	c.Fill("name", name)
	c.Press("Create")
	c.Wait("the new organization", `document.querySelector('.side .who')?.innerText.includes(`+chromium.Quote(name)+`)`)
}

// hides fails the test if the page shows a text.
func (c *console) hides(text string) {
	c.T.Helper()
	c.settle()
	if chromium.Evaluate[bool](c.Browser, `document.body.innerText.includes(`+chromium.Quote(text)+`)`) {
		c.T.Errorf("the page shows %s", text)
	}
}

func TestConsoleRestoresADeletedOrganization(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.LoadAxe()
	c.createOrganization("Second")
	c.at("/settings", "Your role")
	c.Press("Delete organization")
	c.Fill("confirm", "Second")
	c.Press("Delete organization")
	c.See("Second was deleted")
	c.See("removed for good")
	c.Check("console-deleted-organization")
	c.Do(chromedp.EmulateViewport(1280, 900))
	c.Clean()
	c.Press("Switch to Default organization")
	c.See("Overview")
	c.at("/organizations", "deleted")
	c.Press("Switch to Second")
	c.See("Second was deleted")
	c.Press("Restore the organization")
	c.Wait("the organization", `document.querySelector('.side .who')?.innerText.includes('Second')`)
	c.at("/settings", "Your role")
	c.Press("Delete organization")
	c.See("can restore it")
	c.Clean()
}

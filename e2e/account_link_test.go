package e2e

import (
	"net/http"
	"strings"
	"testing"

	"steward/e2e/installation"
)

// joinOrganization opens the link of an invitation, signs in if the page asks for it, and accepts.
func joinOrganization(b *installation.Browser, link string) {
	b.Steward.T.Helper()
	p := b.Do("GET", link, nil)
	if strings.Contains(p.Body, `action="/sign-in"`) {
		p = b.Submit(p, map[string]string{"email": b.Email, "password": b.Password})
		p = b.Do("GET", b.Steward.URL+p.Location, nil)
	}
	if p = b.Submit(p, nil); p.Location != "/console/sign-in" {
		b.Steward.T.Fatalf("the invitation leads to %d %q: %s", p.Status, p.Location, p.Body)
	}
}

// TestTwoOrganizationsInviteTheSameAddress has the holder of one link set the password: the user is a
// member of that organization alone, and the other link only lets the same user accept.
func TestTwoOrganizationsInviteTheSameAddress(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		other := s.SecondOrganization()
		theirs := other.InviteMember("grace@example.com", "owner")
		mine := s.InviteMember("grace@example.com", "viewer")
		holder := s.BrowserOf("grace@example.com", "a first password")
		p := holder.Submit(holder.Do("GET", mine.Link, nil), map[string]string{"password": holder.Password})
		if p.Location != "/console/sign-in" {
			t.Fatalf("the invitation leads to %q: %s", p.Location, p.Body)
		}
		joined := s.MemberOf("grace@example.com")
		if !strings.HasPrefix(joined.ID, "usr_") || joined.Pending || joined.Role != "viewer" {
			t.Errorf("the first organization has %+v", joined)
		}
		pending := other.MemberOf("grace@example.com")
		if pending.ID != theirs.ID || !strings.HasPrefix(pending.ID, "inv_") || !pending.Pending {
			t.Errorf("the other organization has %+v", pending)
		}
		if got := holder.Do("GET", s.URL+"/account", nil); strings.Contains(got.Body, "Second organization") {
			t.Error("accepting one invitation opened the other organization")
		}

		stranger := s.BrowserOf("grace@example.com", "a guess of the password")
		page := stranger.Do("GET", theirs.Link, nil)
		if strings.Contains(page.Body, "new-password") || !strings.Contains(page.Body, `action="/sign-in"`) {
			t.Errorf("the other link offers to set a password: %s", page.Body)
		}
		page = stranger.Do("GET", s.URL+"/account", nil) // for the token of a form
		form := installation.FormValues(installation.FirstForm.FindStringSubmatch(page.Body)[3])
		form.Set("password", stranger.Password)
		form.Set("action", "approve")
		stranger.Do("POST", theirs.Link, form)
		if stranger.HasSession() || other.MemberOf("grace@example.com").ID != theirs.ID {
			t.Error("the other link was used without signing in")
		}

		joinOrganization(holder, theirs.Link)
		if got := other.MemberOf("grace@example.com"); got.ID != joined.ID || got.Role != "owner" || got.Pending {
			t.Errorf("after accepting, the other organization has %+v", got)
		}
	})
}

// TestLinkOfAViewerIsVoidAfterThePromotion keeps a link of a viewer until the viewer is an owner.
func TestLinkOfAViewerIsVoidAfterThePromotion(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		other := s.SecondOrganization()
		adminBrowser, _ := s.Invite("admin@example.com", "admin")
		admin := asMember(s, adminBrowser)
		_, userID := s.Invite("grace@example.com", "viewer")
		kept := admin.Call("POST", "/oidc/org/members/"+userID+"/reset-password", nil).Want(200).Text("link")
		s.Call("PUT", "/oidc/org/members/"+userID, object{"role": "owner"}).Want(200)
		b := s.NewBrowser()
		if got := b.Do("GET", kept, nil); got.Status != http.StatusNotFound {
			t.Errorf("the link of the viewer: %d", got.Status)
		}
		invited := admin.InviteMember("alan@example.com", "viewer")
		s.Call("PUT", "/oidc/org/members/"+invited.ID, object{"role": "owner"}).Want(200)
		if got := b.Do("GET", invited.Link, nil); got.Status != http.StatusNotFound {
			t.Errorf("the invitation of the viewer: %d", got.Status)
		}
		admin.Call("POST", "/oidc/org/members/"+invited.ID+"/invite", nil).Want(403)

		_, userID = s.Invite("linus@example.com", "viewer")
		kept = admin.Call("POST", "/oidc/org/members/"+userID+"/reset-password", nil).Want(200).Text("link")
		linus := s.BrowserOf("linus@example.com", "a first password")
		joinOrganization(linus, other.InviteMember("linus@example.com", "owner").Link)
		if got := b.Do("GET", kept, nil); got.Status != http.StatusNotFound {
			t.Errorf("the link of a user who has joined another organization: %d", got.Status)
		}
	})
}

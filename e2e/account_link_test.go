package e2e

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// invitation invites an address to the organization and returns the member with the link.
func (s *steward) invitation(email, role string) member {
	s.t.Helper()
	var m member
	s.call("POST", "/oidc/org/members", object{"email": email, "role": role}).want(201).decode(&m)
	return m
}

// memberOf returns the entry of the organization's list with an address.
func (s *steward) memberOf(email string) member {
	s.t.Helper()
	var list []member
	s.call("GET", "/oidc/org/members", nil).want(200).decode(&list)
	i := slices.IndexFunc(list, func(m member) bool { return m.Email != nil && *m.Email == email })
	if i < 0 {
		s.t.Fatalf("%s is not listed: %+v", email, list)
	}
	return list[i]
}

// browserOf returns a browser of a user without a session.
func (s *steward) browserOf(email, password string) *browser {
	b := s.browser()
	b.email = email
	b.password = password
	return b
}

// join opens the link of an invitation, signs in if the page asks for it, and accepts.
func (b *browser) join(link string) {
	b.s.t.Helper()
	p := b.do("GET", link, nil)
	if strings.Contains(p.body, `action="/sign-in"`) {
		p = b.submit(p, map[string]string{"email": b.email, "password": b.password})
		p = b.do("GET", b.s.URL+p.location, nil)
	}
	if p = b.submit(p, nil); p.location != "/account" {
		b.s.t.Fatalf("the invitation leads to %d %q: %s", p.status, p.location, p.body)
	}
}

// rename changes the names of the user who is signed in, on the account page.
func (b *browser) rename(first, last string) {
	b.s.t.Helper()
	p := b.do("GET", b.s.URL+"/account", nil)
	form := url.Values{
		"csrf":       formValues(firstForm.FindStringSubmatch(p.body)[3])["csrf"],
		"first_name": {first}, "last_name": {last},
	}
	if p := b.do("POST", b.s.URL+"/account/profile", form); p.location != "/account" {
		b.s.t.Fatalf("the profile leads to %d: %s", p.status, p.body)
	}
}

// TestTwoOrganizationsInviteTheSameAddress has the holder of one link set the password: the user is a
// member of that organization alone, and the other link only lets the same user accept.
func TestTwoOrganizationsInviteTheSameAddress(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		other := s.secondOrganization()
		theirs := other.invitation("grace@example.com", "owner")
		mine := s.invitation("grace@example.com", "viewer")
		holder := s.browserOf("grace@example.com", "a first password")
		p := holder.submit(holder.do("GET", mine.Link, nil), map[string]string{"password": holder.password})
		if p.location != "/account" {
			t.Fatalf("the invitation leads to %q: %s", p.location, p.body)
		}
		joined := s.memberOf("grace@example.com")
		if !strings.HasPrefix(joined.ID, "usr_") || joined.Pending || joined.Role != "viewer" {
			t.Errorf("the first organization has %+v", joined)
		}
		pending := other.memberOf("grace@example.com")
		if pending.ID != theirs.ID || !strings.HasPrefix(pending.ID, "inv_") || !pending.Pending {
			t.Errorf("the other organization has %+v", pending)
		}
		if got := holder.do("GET", s.URL+"/account", nil); strings.Contains(got.body, "Second organization") {
			t.Error("accepting one invitation opened the other organization")
		}

		stranger := s.browserOf("grace@example.com", "a guess of the password")
		page := stranger.do("GET", theirs.Link, nil)
		if strings.Contains(page.body, "new-password") || !strings.Contains(page.body, `action="/sign-in"`) {
			t.Errorf("the other link offers to set a password: %s", page.body)
		}
		page = stranger.do("GET", s.URL+"/account", nil) // for the token of a form
		form := formValues(firstForm.FindStringSubmatch(page.body)[3])
		form.Set("password", stranger.password)
		form.Set("action", "approve")
		stranger.do("POST", theirs.Link, form)
		if stranger.signedIn() || other.memberOf("grace@example.com").ID != theirs.ID {
			t.Error("the other link was used without signing in")
		}

		holder.join(theirs.Link)
		if got := other.memberOf("grace@example.com"); got.ID != joined.ID || got.Role != "owner" || got.Pending {
			t.Errorf("after accepting, the other organization has %+v", got)
		}
	})
}

// TestLinkOfAViewerIsVoidAfterThePromotion keeps a link of a viewer until the viewer is an owner.
func TestLinkOfAViewerIsVoidAfterThePromotion(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		other := s.secondOrganization()
		adminBrowser, _ := s.invite("admin@example.com", "admin")
		admin := s.asMember(adminBrowser)
		_, userID := s.invite("grace@example.com", "viewer")
		kept := admin.call("POST", "/oidc/org/members/"+userID+"/reset-password", nil).want(200).text("link")
		s.call("PUT", "/oidc/org/members/"+userID, object{"role": "owner"}).want(200)
		b := s.browser()
		if got := b.do("GET", kept, nil); got.status != http.StatusNotFound {
			t.Errorf("the link of the viewer: %d", got.status)
		}
		invited := admin.invitation("alan@example.com", "viewer")
		s.call("PUT", "/oidc/org/members/"+invited.ID, object{"role": "owner"}).want(200)
		if got := b.do("GET", invited.Link, nil); got.status != http.StatusNotFound {
			t.Errorf("the invitation of the viewer: %d", got.status)
		}
		admin.call("POST", "/oidc/org/members/"+invited.ID+"/invite", nil).want(403)

		_, userID = s.invite("linus@example.com", "viewer")
		kept = admin.call("POST", "/oidc/org/members/"+userID+"/reset-password", nil).want(200).text("link")
		linus := s.browserOf("linus@example.com", "a first password")
		linus.join(other.invitation("linus@example.com", "owner").Link)
		if got := b.do("GET", kept, nil); got.status != http.StatusNotFound {
			t.Errorf("the link of a user who has joined another organization: %d", got.status)
		}
	})
}

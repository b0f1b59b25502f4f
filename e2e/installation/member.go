package installation

import (
	"net/url"
	"slices"
	"strings"
)

// Member is an organization's member as the API returns it.
type Member struct {
	ID        string
	FirstName *string `json:"first_name"`
	Email     *string
	Role      string
	Link      string
	Pending   bool
}

// MemberOf returns the organization's member with an address.
func (s *Steward) MemberOf(email string) Member {
	s.T.Helper()
	var list []Member
	s.Call("GET", "/oidc/org/members", nil).Want(200).Decode(&list)
	i := slices.IndexFunc(list, func(m Member) bool { return m.Email != nil && *m.Email == email })
	if i < 0 {
		s.T.Fatalf("%s is not listed: %+v", email, list)
	}
	return list[i]
}

// Rename changes the signed-in user's names on the account page.
func (b *Browser) Rename(first, last string) {
	b.Steward.T.Helper()
	p := b.Do("GET", b.Steward.URL+"/account", nil)
	form := url.Values{
		"csrf":       FormValues(FirstForm.FindStringSubmatch(p.Body)[3])["csrf"],
		"first_name": {first}, "last_name": {last},
	}
	if p := b.Do("POST", b.Steward.URL+"/account/profile", form); p.Location != "/account" {
		b.Steward.T.Fatalf("the profile leads to %d: %s", p.Status, p.Body)
	}
}

// InviteMember invites an address to the organization and returns the member with the link.
func (s *Steward) InviteMember(email, role string) Member {
	s.T.Helper()
	var m Member
	s.Call("POST", "/oidc/org/members", map[string]any{"email": email, "role": role}).Want(201).Decode(&m)
	return m
}

// BrowserOf returns a user's browser without a session.
func (s *Steward) BrowserOf(email, password string) *Browser {
	b := s.NewBrowser()
	b.Email = email
	b.Password = password
	return b
}

// HasSession reports whether the browser still has a session.
func (b *Browser) HasSession() bool {
	b.Steward.T.Helper()
	return !strings.Contains(b.Do("GET", b.Steward.URL+"/account", nil).Body, `action="/sign-in"`)
}

// VisitAccount returns the account page, and signs in if necessary.
func (b *Browser) VisitAccount() Page {
	b.Steward.T.Helper()
	p := b.Do("GET", b.Steward.URL+"/account", nil)
	if strings.Contains(p.Body, `action="/sign-in"`) {
		p = b.Submit(p, map[string]string{"email": b.Email, "password": b.Password})
		if p.Location != "/account" {
			b.Steward.T.Fatalf("the sign-in fails with %d: %s", p.Status, p.Body)
		}
		p = b.Do("GET", b.Steward.URL+p.Location, nil)
	}
	return p
}

// PostAccount sends a form on the account page with these fields.
func (b *Browser) PostAccount(path string, fields map[string]string) Page {
	b.Steward.T.Helper()
	own := FormValues(FirstForm.FindStringSubmatch(b.VisitAccount().Body)[3])
	values := url.Values{"csrf": {own.Get("csrf")}}
	for name, value := range fields {
		values.Set(name, value)
	}
	return b.Do("POST", b.Steward.URL+path, values)
}

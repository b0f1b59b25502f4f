package installation

import (
	"net/url"
	"slices"
)

// Member is a member of an organization as the API returns it.
type Member struct {
	ID        string
	FirstName *string `json:"first_name"`
	Email     *string
	Role      string
	Link      string
	Pending   bool
}

// MemberOf returns the entry of the organization's list with an address.
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

// Rename changes the names of the user who is signed in, on the account page.
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

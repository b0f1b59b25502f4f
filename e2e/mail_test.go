package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/internal/mail/mailtest"
)

// eachWithMail runs a test on an installation with a mail server, on each database.
func eachWithMail(t *testing.T, test func(t *testing.T, s *installation.Steward, mail *mailtest.Server)) {
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			s, mail := installation.StartWithMail(t, name)
			test(t, s, mail)
		})
	}
}

// verified returns the claim email_verified of a user who signs in to an application.
func verified(s *installation.Steward, b *installation.Browser) bool {
	s.T.Helper()
	party := s.NewRelyingParty(s.NewApplication(map[string]any{}), "openid", "email")
	_, token := party.SignIn(b)
	var claims struct {
		Email    string `json:"email"`
		Verified bool   `json:"email_verified"`
	}
	s.Must(token.Claims(&claims))
	if claims.Email != b.Email {
		s.T.Errorf("the user is %q, want %q", claims.Email, b.Email)
	}
	return claims.Verified
}

// asHost sends a form with another Host header.
func asHost(b *installation.Browser, host, path string, form url.Values) int {
	b.Steward.T.Helper()
	req, err := http.NewRequest("POST", b.Steward.URL+path, strings.NewReader(form.Encode()))
	b.Steward.Must(err)
	for _, cookie := range b.HTTP.Jar.Cookies(req.URL) {
		req.AddCookie(cookie)
	}
	req.Host = host
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("X-Forwarded-Host", host)
	req.Header.Set("Forwarded", "host="+host)
	res, err := b.HTTP.Do(req)
	b.Steward.Must(err)
	b.Steward.Must(res.Body.Close())
	return res.StatusCode
}

// TestInvitationIsMailed has one person use the link of the mail, and another the link of the answer.
func TestInvitationIsMailed(t *testing.T) {
	t.Parallel()
	eachWithMail(t, func(t *testing.T, s *installation.Steward, mail *mailtest.Server) {
		m := s.InviteMember("grace@example.com", "member")
		got := mail.Wait("grace@example.com", 1)
		if got.From != "steward@example.com" || !strings.HasPrefix(got.Link(), s.URL+"/invite/") || got.Link() == m.Link {
			t.Fatalf("the mail is from %s and has the link %s", got.From, got.Link())
		}
		grace := s.BrowserOf("grace@example.com", "a first password")
		grace.Submit(grace.Do("GET", got.Link(), nil), map[string]string{"password": grace.Password})
		if !grace.HasSession() || !verified(s, grace) {
			t.Error("the mailed link has not signed the user in, or not proved the address")
		}
		for _, link := range []string{got.Link(), m.Link} {
			if p := grace.Do("GET", link, nil); p.Status != http.StatusNotFound {
				t.Errorf("a used link gets %d", p.Status)
			}
		}
		m = s.InviteMember("alan@example.com", "member")
		mail.Wait("alan@example.com", 1)
		alan := s.BrowserOf("alan@example.com", "a first password")
		alan.Submit(alan.Do("GET", m.Link, nil), map[string]string{"password": alan.Password})
		if !alan.HasSession() || verified(s, alan) {
			t.Error("the link of the answer has not signed the user in, or has proved the address")
		}
		for _, name := range []string{"Eve\r\nBcc: eve@example.com", "Eve\nBcc: eve@example.com", "Eve\rX: y"} {
			s.Call("POST", "/oidc/org/members", object{"email": "eve@example.com", "first_name": name, "role": "viewer"}).
				Want(http.StatusUnprocessableEntity)
		}
	})
}

// TestMailEndsWhatAnotherOrganizationHasOpened has another organization invite an address, and open the account with
// the link that the API returned. Later the person uses what is mailed: a new password, or a new account.
func TestMailEndsWhatAnotherOrganizationHasOpened(t *testing.T) {
	t.Parallel()
	eachWithMail(t, func(t *testing.T, s *installation.Steward, mail *mailtest.Server) {
		other := s.SecondOrganization()
		app := s.NewApplication(map[string]any{})
		party := s.NewRelyingParty(app, "openid", "email", "offline_access")
		for _, choice := range []string{"own", "new"} {
			email := choice + "@corp.example"
			mallory := s.BrowserOf(email, "a password of mallory")
			opened := mallory.Do("GET", other.InviteMember(email, "member").Link, nil)
			mallory.Submit(opened, map[string]string{"password": mallory.Password})
			token, _ := party.SignIn(mallory)
			old := other.MemberOf(email)

			s.InviteMember(email, "owner")
			invitation := mail.WaitSubject(email, "You are invited to Default organization").Link()
			person := s.BrowserOf(email, "a password of the person")
			if choice == "own" {
				forgot := person.Do("GET", s.URL+"/forgot-password", nil)
				person.Submit(forgot, map[string]string{"email": email})
				reset := person.Do("GET", mail.WaitSubject(email, "Set a new password").Link(), nil)
				person.Submit(reset, map[string]string{"password": person.Password})
				joinOrganization(person, invitation)
			} else {
				create := person.Submit(person.Do("GET", invitation, nil), map[string]string{"account": choice})
				if p := person.Submit(create, map[string]string{"password": person.Password}); p.Location != "/console/sign-in" {
					t.Fatalf("the new account leads to %d: %s", p.Status, p.Body)
				}
			}
			joined := s.MemberOf(email)
			if joined.Role != "owner" || (joined.ID == old.ID) != (choice == "own") || !verified(s, person) {
				t.Errorf("%s: the organization has %+v, and the address is not proved", choice, joined)
			}
			again := s.BrowserOf(email, mallory.Password)
			again.Submit(again.Do("GET", s.URL+"/account", nil), map[string]string{"email": email, "password": mallory.Password})
			if again.HasSession() {
				t.Errorf("%s: the password of before signs in", choice)
			}
			// The old account is another user's than that of the person, if the person has a new one.
			refreshed := s.Active(app, token.RefreshToken)
			if ended := choice == "own"; mallory.HasSession() == ended || refreshed == ended {
				t.Errorf("%s: the session of before lasts: %t, the tokens: %t", choice, mallory.HasSession(), refreshed)
			}
		}
	})
}

// TestInvitationIgnoresTheHostHeader invites with requests that name another host.
func TestInvitationIgnoresTheHostHeader(t *testing.T) {
	t.Parallel()
	s, mail := installation.StartWithMail(t, "sqlite")
	body := strings.NewReader(`{"email": "grace@example.com", "role": "member"}`)
	req, err := http.NewRequest("POST", s.URL+"/oidc/org/members", body)
	s.Must(err)
	req.Host = "evil.example.com"
	req.Header.Set("X-Forwarded-Host", req.Host)
	req.Header.Set("Forwarded", "host="+req.Host)
	req.Header.Set("Authorization", "Bearer "+s.Key)
	req.Header.Set("Content-Type", "application/json")
	res, err := installation.Client.Do(req)
	s.Must(err)
	made, err := installation.ReadResponse(t, res)
	s.Must(err)
	if link := made.Want(201).Text("link"); !strings.HasPrefix(link, s.URL+"/invite/") {
		t.Errorf("the link is %s", link)
	}
	if got := mail.Wait("grace@example.com", 1); !strings.HasPrefix(got.Link(), s.URL+"/invite/") || strings.Contains(got.Raw, "evil") {
		t.Errorf("the mail is %s", got.Raw)
	}
}

// TestForgottenPasswordIsMailed asks with another Host header, as an attacker who hopes that the link leads to
// a server of theirs.
func TestForgottenPasswordIsMailed(t *testing.T) {
	t.Parallel()
	eachWithMail(t, func(t *testing.T, s *installation.Steward, mail *mailtest.Server) {
		b := s.NewBrowser()
		page := b.Do("GET", s.URL+"/account", nil)
		if !strings.Contains(page.Body, `href="/forgot-password"`) {
			t.Fatalf("the sign-in page offers no link: %s", page.Body)
		}
		page = b.Do("GET", s.URL+"/forgot-password", nil)
		form := installation.FormValues(installation.FirstForm.FindStringSubmatch(page.Body)[3])
		for _, email := range []string{"nobody@example.com", b.Email} {
			form.Set("email", email)
			if status := asHost(b, "evil.example.com", "/forgot-password", form); status != http.StatusOK {
				t.Fatalf("%s gets %d", email, status)
			}
		}
		got := mail.WaitSubject(b.Email, "Set a new password")
		if !strings.HasPrefix(got.Link(), s.URL+"/reset/") || strings.Contains(got.Raw, "evil") {
			t.Fatalf("the mail is %s", got.Raw)
		}
		b.Password = "a second password"
		b.Submit(b.Do("GET", got.Link(), nil), map[string]string{"password": b.Password})
		if !b.HasSession() || !verified(s, b) {
			t.Error("the link has not signed the user in, or not proved the address")
		}
		mail.WaitSubject(b.Email, "Your password was changed")
		if p := b.Do("GET", got.Link(), nil); p.Status != http.StatusNotFound {
			t.Errorf("the used link gets %d", p.Status)
		}
		again := s.NewBrowser()
		again.Password = b.Password
		verified(s, again) // signs in with the new password
		mail.WaitSubject(b.Email, "A new sign-in to your account")
		if n := len(mail.Mails("nobody@example.com")); n != 0 {
			t.Errorf("an address without an account has got %d mails", n)
		}
	})
}

func TestNewAddressIsMailed(t *testing.T) {
	t.Parallel()
	eachWithMail(t, func(t *testing.T, s *installation.Steward, mail *mailtest.Server) {
		b := s.NewBrowser()
		verified(s, b) // signs in
		page := b.Do("GET", s.URL+"/account", nil)
		form := installation.FormValues(installation.FirstForm.FindStringSubmatch(page.Body)[3])
		form.Set("new_email", "countess@example.com")
		form.Set("password", b.Password)
		if p := b.Do("POST", s.URL+"/account/email", form); p.Status != http.StatusOK {
			t.Fatalf("got %d %s", p.Status, p.Body)
		}
		link := mail.WaitSubject("countess@example.com", "Confirm your email address").Link()
		if p := b.Submit(b.Do("GET", link, nil), nil); p.Status != http.StatusOK {
			t.Fatalf("got %d %s", p.Status, p.Body)
		}
		mail.WaitSubject(installation.AdminEmail, "Your email address was changed")
		b.Email = "countess@example.com"
		if !verified(s, b) {
			t.Error("the address is not proved")
		}
	})
}

// TestReplicasMailOnce has two processes on one database.
func TestReplicasMailOnce(t *testing.T) {
	t.Parallel()
	s, mail := installation.StartWithMail(t, "postgres")
	s.Replica()
	const n = 20
	for i := range n {
		s.InviteMember(fmt.Sprintf("u%d@example.com", i), "viewer")
	}
	for i := range n {
		mail.Wait(fmt.Sprintf("u%d@example.com", i), 1)
	}
	s.Stop()
	if mail.All() != n {
		t.Errorf("%d mails arrived, want %d", mail.All(), n)
	}
}

package federation_test

import (
	"net/http"
	"strings"
	"testing"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/oidc/upstream"
	"steward/internal/page"
)

// only returns settings of a provider that is the only way in for the addresses of example.com.
func only(s *providertest.Stranger) upstream.NewUpstream {
	n := s.Settings()
	n.Domains = page.Some([]string{"example.com"})
	n.Only = page.Some(true)
	return n
}

func TestDomainsMustBeGranted(t *testing.T) {
	f := providertest.OnSQLite(t)
	s := f.NewStranger()
	store := f.Provider.Upstreams.Store
	_, err := store.Create(f.Ctx, auth.From(f.Ctx), only(s))
	if errs.KindOf(err) != errs.Invalid {
		t.Errorf("a domain that was not granted: %v", err)
	}
	store.Domains.Granted["example.com"] = "" // to the first organization
	u := f.NewUpstream(only(s))
	f.NewUser("other@example.org", "a password of another") // so that no provider is offered to everybody

	b := f.Browser()
	typed := func(email string) *providertest.Response {
		_, _, values := b.Get(f.URL + "/account").Form()
		values.Set("email", email)
		return b.Do("POST", f.URL+upstream.PathSignIn, values)
	}
	s.Receive(typed(" Somebody@Example.com "))
	for _, email := range []string{"somebody@example.org", "somebody@sub.example.com", "", "x"} {
		if r := typed(email); r.Status != http.StatusBadRequest || !strings.Contains(r.Body, "no single sign-on") {
			t.Errorf("%q leads to %d", email, r.Status)
		}
	}
	delete(store.Domains.Granted, "example.com")
	typed("somebody@example.com").Want(http.StatusBadRequest)
	store.Domains.Granted["example.com"] = "org_of_others"
	typed("somebody@example.com").Want(http.StatusBadRequest)
	_, err = store.Update(f.Ctx, auth.From(f.Ctx), upstream.Change{ID: u.ID},
		upstream.Patch{Settings: upstream.Settings{Domains: page.Some([]string{"example.com"})}})
	if errs.KindOf(err) != errs.Invalid {
		t.Errorf("a domain of another organization: %v", err)
	}
}

func TestDomainWithoutPasswords(t *testing.T) {
	f := providertest.OnSQLite(t)
	f.UseLocalhost() // where there are passkeys
	s := f.NewStranger()
	f.Provider.Upstreams.Store.Domains.Granted["example.com"] = f.OrgID
	n := only(s)
	n.DefaultRole = page.Some(auth.Member)
	u := f.NewUpstream(n)
	const password = "a password of anna"
	invitation := f.Invite(f.OrgID, "anna@example.com", auth.Member)
	b := f.Browser()
	page := b.Get(invitation).Want(http.StatusOK)
	if strings.Contains(page.Body, "New password") || !strings.Contains(page.Body, "Continue with Stranger") {
		t.Errorf("the invitation offers a password: %s", page.Body)
	}
	_, _, values := page.Form()
	values.Set("password", password)
	b.Do("POST", invitation, values).Want(http.StatusBadRequest)
	b.Get(invitation + "/passkey").Want(http.StatusSeeOther)
	b.Do("POST", invitation+"/passkey", values).Want(http.StatusOK)
	if b.SignedIn() {
		t.Error("a passkey was created in a domain with a provider only")
	}

	s.Say(claims{"email": "anna@example.com", "email_verified": true})
	anna := b.WantIn(s.Enter(b, u))
	var reset string
	providertest.Must(t, f.DB.Write(f.Ctx, func(tx *db.Tx) (err error) {
		reset, _, err = f.Accounts.NewReset(tx, anna)
		return err
	}))
	other := f.Browser()
	link := f.URL + "/reset/" + reset
	if r := other.Submit(other.Get(link), "password", password); r.Status != http.StatusBadRequest || other.SignedIn() {
		t.Errorf("a password was set in a domain without passwords: %d", r.Status)
	}
	// A new user gets the address of a granted domain.
	s.Say(claims{"sub": "carl", "email": "carl@example.com", "email_verified": true})
	carl := other.WantIn(s.Enter(other, u))
	if login, err := f.Accounts.UserByEmail(t.Context(), "carl@example.com"); err != nil || login.ID != carl {
		t.Errorf("the new user has no address: %v", err)
	}

	// Whoever has a password and has not linked an account keeps it, and so do owners.
	owner := f.Browser()
	owner.SignIn(owner.Get(f.URL + "/account"))
	if !owner.SignedIn() {
		t.Fatal("the owner is locked out")
	}
	providertest.Must(t, f.DB.Write(t.Context(), func(tx *db.Tx) error {
		return f.Accounts.SetPassword(tx, anna, account.HashPassword(password))
	}))
	enter := func() *providertest.Response {
		b := f.Browser()
		return b.Submit(b.Get(f.URL+"/account"), "email", "anna@example.com", "password", password)
	}
	enter().Want(http.StatusSeeOther)
	providertest.Must(t, f.DB.Write(t.Context(), func(tx *db.Tx) error {
		return f.Provider.Upstreams.Store.PutIdentity(tx, upstream.Identity{
			OrgID: f.OrgID, Issuer: s.URL, Subject: "anna", UserID: anna, Linked: true,
		})
	}))
	if r := enter().Want(http.StatusForbidden); !strings.Contains(r.Body, "does not use passwords") {
		t.Errorf("the page says %s", r.Body)
	}
}

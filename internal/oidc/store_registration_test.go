package oidc

import (
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
)

// loopback is a client that anybody can register.
func loopback() NewClient {
	return NewClient{Name: "Editor", HomepageURL: "http://localhost", Settings: Settings{
		AuthMethod: some(NoAuth), RedirectURIs: some([]string{"http://127.0.0.1/callback"}),
	}}
}

// register registers a client of the caller's organization.
func (f *fixture) register(r Registration, n NewClient) Enrolled {
	f.t.Helper()
	c, err := f.Register(f.ctx, SelfRegistration{OrgID: f.caller.OrgID, Registration: r, Client: n})
	must(f.t, err)
	return c
}

func TestRegisteredClientIsRecognizedByItsOwnTokenOnly(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		one := f.register(Anonymous, loopback())
		two := f.register(WithToken, loopback())
		created := f.client(Settings{}).Client
		got, err := f.CheckRegistration(f.ctx, one.Client.ID, one.Token)
		must(t, err)
		if got.ID != one.Client.ID || got.Registration != Anonymous || got.IsPublic || got.OrgID != f.caller.OrgID {
			t.Errorf("got %+v", got)
		}
		for name, try := range map[string][2]string{
			"token of another client": {one.Client.ID, two.Token},
			"no token":                {one.Client.ID, ""},
			"client of a user":        {created.ID, one.Token},
			"client of a user, none":  {created.ID, ""},
			"unknown client":          {strings.Replace(one.Client.ID, "oac_0", "oac_7", 1), one.Token},
			"not an id":               {"\x00", one.Token},
		} {
			if _, err := f.CheckRegistration(f.ctx, try[0], try[1]); errs.KindOf(err) != errs.Unauthorized {
				t.Errorf("%s: %v", name, err)
			}
		}
		if !slices.Contains(f.audits(), "client.register "+one.Client.ID) {
			t.Errorf("the audit log has %v", f.audits())
		}
		must(t, f.Delete(f.ctx, f.caller.OrgID, one.Client.ID, page.IfMatch{}))
		_, err = f.CheckRegistration(f.ctx, one.Client.ID, one.Token)
		wantKind(t, err, errs.Unauthorized)
	})
}

func TestRegisteredClientStaysWithinItsLimits(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.register(Anonymous, loopback()).Client
		for name, p := range map[string]ClientPatch{
			"client credentials": {Settings: Settings{GrantTypes: some([]string{ClientCredentials}), ClientType: some(Confidential)}},
			"device codes":       {Settings: Settings{GrantTypes: some([]string{DeviceCode})}},
			"a secret":           {Settings: Settings{AuthMethod: some(SecretBasic)}},
			"a host":             {Settings: Settings{RedirectURIs: some([]string{"https://evil.example/callback"})}},
			"a scheme":           {Settings: Settings{RedirectURIs: some([]string{"com.example.app:/callback"})}},
			"after logout":       {Settings: Settings{PostLogoutRedirectURIs: some([]string{"https://evil.example/"})}},
			"told of logouts":    {Settings: Settings{BackchannelLogoutURI: some("https://evil.example/")}},
		} {
			_, err := f.Update(f.ctx, f.caller, c.ID, page.IfMatch{}, p)
			if errs.KindOf(err) != errs.Invalid {
				t.Errorf("%s: %v", name, err)
			}
		}
		own := AsItself(f.ctx, c)
		_, err := f.Update(own, auth.From(own), c.ID, page.IfMatch{}, ClientPatch{Settings: Settings{Scopes: some([]string{"thread:read"})}})
		wantKind(t, err, errs.Forbidden)
		_, err = f.Update(own, auth.From(own), c.ID, page.IfMatch{}, ClientPatch{Settings: Settings{Scopes: some([]string{"openid"})}})
		must(t, err)
	})
}

func TestFloodOfAnonymousClientsIsBounded(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		used := f.register(Anonymous, loopback()).Client
		activity := Activity{Store: f.Store}
		activity.Note(used.ID, "usr_1")
		must(t, activity.Flush(f.ctx))
		var first string
		must(t, f.DB.Write(f.ctx, func(tx *db.Tx) error {
			for range maxAnonymous - 1 {
				n := loopback()
				n.registration = Anonymous
				c, _, err := n.build(f.now())
				if err != nil {
					return err
				}
				c.OrgID = f.caller.OrgID
				if first == "" {
					first = c.ID
				}
				if err := insertClient(tx, c, ""); err != nil {
					return err
				}
			}
			return nil
		}))
		full := SelfRegistration{OrgID: f.caller.OrgID, Registration: Anonymous, Client: loopback()}
		_, err := f.Register(f.ctx, full)
		wantKind(t, err, errs.RateLimited)
		f.register(WithToken, loopback()) // has a limit of its own

		f.advance(neverUsedAfter + time.Second)
		_, err = f.Register(f.ctx, full)
		must(t, err)
		_, err = f.Get(f.ctx, f.caller.OrgID, first)
		wantKind(t, err, errs.NotFound)
		_, err = f.Get(f.ctx, f.caller.OrgID, used.ID)
		must(t, err)
	})
}

func TestUnusedRegisteredClientIsDeletedAfterSevenDays(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		created := f.client(Settings{}).Client
		unused := f.register(Anonymous, loopback()).Client
		other := f.register(WithToken, loopback()).Client
		used := f.register(WithToken, loopback()).Client
		consent := f.consent(unused.ID, f.caller.UserID, "openid")
		f.advance(UnusedAfter - time.Minute)
		activity := Activity{Store: f.Store}
		activity.Note(used.ID, "usr_1")
		must(t, activity.Flush(f.ctx))
		must(t, f.DeleteUnused(f.ctx, 1))
		if !f.live(consent) {
			t.Error("the client is deleted too early")
		}
		f.advance(2 * time.Minute)
		must(t, f.DeleteUnused(f.ctx, 1))
		for id, want := range map[string]errs.Kind{created.ID: "", used.ID: "", unused.ID: errs.NotFound, other.ID: errs.NotFound} {
			_, err := f.Get(f.ctx, f.caller.OrgID, id)
			wantKind(t, err, want)
		}
		if f.live(consent) || !slices.Contains(f.audits(), "client.expire "+unused.ID) {
			t.Errorf("live: %v, the audit log has %v", f.live(consent), f.audits())
		}
		f.advance(UnusedAfter)
		must(t, f.DeleteUnused(f.ctx, 1000))
		_, err := f.Get(f.ctx, f.caller.OrgID, used.ID)
		wantKind(t, err, errs.NotFound)
	})
}

// TestClientThatIsUsedMeanwhileStays uses a client after the search found it.
func TestClientThatIsUsedMeanwhileStays(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.register(Anonymous, loopback()).Client
		f.advance(2 * UnusedAfter)
		activity := Activity{Store: f.Store}
		activity.Note(c.ID, "usr_1")
		must(t, activity.Flush(f.ctx))
		key := registeredKey{f.caller.OrgID, Anonymous, c.ID}
		must(t, f.deleteUnused(f.ctx, key, stamp.Of(f.now().Add(-UnusedAfter))))
		_, err := f.Get(f.ctx, f.caller.OrgID, c.ID)
		must(t, err)
		key.clientID = "oac_gone"
		must(t, f.deleteUnused(f.ctx, key, stamp.Of(f.now())))
	})
}

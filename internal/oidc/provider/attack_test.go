package provider_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"steward/internal/auth"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/oidc/provider/session"
	paging "steward/internal/page"
)

func TestDeletingAClientRevokesItsCodesAndTokens(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a, code := f.NewApp(providertest.Confidential), ""
		tokens := a.Tokens()
		code = a.Code()
		machine := a.Post("/oauth/token", "grant_type", "client_credentials").Want(http.StatusOK).Text("access_token")
		providertest.Must(t, f.Clients.Store.Delete(f.Ctx, f.OrgID, a.ID, paging.IfMatch{}))
		a.WantInvalid(tokens["access_token"], "client deleted")
		a.WantInvalid(machine, "client deleted")
		a.Refresh(tokens["refresh_token"].(string)).WantError(http.StatusUnauthorized, oauth.InvalidClient)
		a.Redeem(code).WantError(http.StatusUnauthorized, oauth.InvalidClient)
		f.Browser().Get(a.AuthorizeURL()).Want(http.StatusBadRequest)
	})
}

func TestRevokingAUserRevokesTheirTokensOnly(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Confidential)
		f.NewUser("other@example.com", "another password")
		b := f.Browser()
		result := b.CompleteAs(b.Get(a.AuthorizeURL()), "other@example.com", "another password")
		other := a.Redeem(result.Get("code")).Want(http.StatusOK).JSON()
		tokens, code, machine := a.Tokens(), a.Code(), a.MachineToken()
		providertest.Must(t, f.Clients.Store.RevokeUser(f.Ctx, f.OrgID, a.ID, f.UserID))
		a.WantInvalid(tokens["access_token"], "user revoked")
		a.Refresh(tokens["refresh_token"].(string)).WantRefused(oauth.InvalidGrant)
		a.Redeem(code).WantRefused(oauth.InvalidGrant)
		f.Userinfo(other["access_token"].(string)).Want(http.StatusOK)
		// A new consent does not make the old tokens valid again.
		f.Userinfo(a.Tokens()["access_token"].(string)).Want(http.StatusOK)
		a.WantInvalid(tokens["access_token"], "user revoked, then consented again")
		providertest.Must(t, f.Clients.Store.RevokeAll(f.Ctx, f.OrgID, a.ID))
		a.WantInvalid(other["access_token"], "all users revoked")
		if !a.Active(machine) {
			t.Error("revoking all users has revoked a token of the client itself")
		}
	})
}

// TestClientAdmitsOnlyItsUsers checks allowed_user_ids and is_public, at authorization and at refresh.
func TestClientAdmitsOnlyItsUsers(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(strings.Replace(providertest.Confidential, "{", `{"is_public": false,`, 1))
		f.NewUser("guest@example.com", "guest password")
		b := f.Browser()
		got := b.CompleteAs(b.Get(a.AuthorizeURL()), "guest@example.com", "guest password")
		if got.Get("error") != oauth.AccessDenied {
			t.Fatalf("a user outside the organization got %v", got)
		}
		tokens := a.Tokens()
		patch := oidc.ClientPatch{}
		providertest.Must(t, json.Unmarshal([]byte(`{"allowed_user_ids": ["usr_nobody"]}`), &patch))
		_, err := f.Clients.Store.Update(f.Ctx, auth.From(f.Ctx), a.ID, paging.IfMatch{}, patch)
		providertest.Must(t, err)
		a.Refresh(tokens["refresh_token"].(string)).WantRefused(oauth.InvalidGrant)
		b = f.Browser()
		if got := b.Complete(b.Get(a.AuthorizeURL())); got.Get("error") != oauth.AccessDenied {
			t.Fatalf("a user who is not allowed got %v", got)
		}
	})
}

func TestCredentialsAreStoredAsHashes(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a, device, b := f.NewApp(providertest.Confidential), f.NewApp(providertest.Public), f.Browser()
		code := b.Complete(b.Get(a.AuthorizeURL())).Get("code")
		at, err := url.Parse(f.URL)
		providertest.Must(t, err)
		cookie := ""
		for _, c := range b.HTTP.Jar.Cookies(at) {
			if c.Name == session.CookieName {
				cookie = c.Value
			}
		}
		pushed := a.Post("/par", "response_type", "code", "redirect_uri", providertest.Callback, "scope", "openid")
		pushed.Want(http.StatusCreated)
		handle := strings.TrimPrefix(pushed.Text("request_uri"), "urn:ietf:params:oauth:request_uri:")
		for _, one := range []struct{ query, secret string }{
			{`SELECT code_hash FROM oidc_grants WHERE code_hash IS NOT NULL`, code},
			{`SELECT token_hash FROM oidc_sessions`, cookie},
			{`SELECT id_hash FROM oidc_pushed`, handle},
			{`SELECT code_hash FROM oidc_devices`, device.Post("/device_authorization").Want(http.StatusOK).Text("device_code")},
			{`SELECT secret_hash FROM oidc_clients WHERE secret_hash IS NOT NULL`, a.Secret},
		} {
			var stored []byte
			providertest.Must(t, f.DB.Read(t.Context()).Row(one.query).Scan(&stored))
			if sum := sha256.Sum256([]byte(one.secret)); one.secret == "" || !bytes.Equal(stored, sum[:]) {
				t.Errorf("%s: %d bytes are not the SHA-256 of the secret", one.query, len(stored))
			}
		}
	})
}

package provider_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	rp "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
)

// TestRelyingPartySignsIn signs in, reads the ID token and userinfo, and refreshes with the
// libraries of a real relying party.
func TestRelyingPartySignsIn(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Confidential)
		discovered, err := rp.NewProvider(t.Context(), f.URL)
		providertest.Must(t, err)
		config := oauth2.Config{
			ClientID: a.ID, ClientSecret: a.Secret, Endpoint: discovered.Endpoint(), RedirectURL: providertest.Callback,
			Scopes: []string{"openid", "profile", "email", "offline_access"},
		}
		pkce := oauth2.GenerateVerifier()
		b := f.Browser()
		result := b.Complete(b.Get(config.AuthCodeURL("st", oauth2.S256ChallengeOption(pkce), rp.Nonce("nn"))))
		if result.Get("state") != "st" || result.Get("iss") != f.URL {
			t.Fatalf("got %v", result)
		}
		token, err := config.Exchange(t.Context(), result.Get("code"), oauth2.VerifierOption(pkce))
		providertest.Must(t, err)
		raw, _ := token.Extra("id_token").(string)
		idToken, err := discovered.Verifier(&rp.Config{ClientID: a.ID, Now: f.Clock.Now}).Verify(t.Context(), raw)
		providertest.Must(t, err)
		providertest.Must(t, idToken.VerifyAccessToken(token.AccessToken))
		if idToken.Subject != f.UserID || idToken.Nonce != "nn" {
			t.Fatalf("got subject %s, nonce %s", idToken.Subject, idToken.Nonce)
		}
		info, err := discovered.UserInfo(t.Context(), oauth2.StaticTokenSource(token))
		providertest.Must(t, err)
		if info.Subject != f.UserID || info.Email != providertest.OwnerEmail {
			t.Fatalf("got %+v", info)
		}
		token.Expiry = time.Now().Add(-time.Hour)
		again, err := config.TokenSource(t.Context(), token).Token()
		providertest.Must(t, err)
		if again.RefreshToken == token.RefreshToken || again.AccessToken == token.AccessToken {
			t.Fatal("the tokens were not rotated")
		}
		f.Userinfo(again.AccessToken).Want(http.StatusOK)
	})
}

// TestAccessesAreNoted counts tokens, userinfo and introspections, but not what was refused.
func TestAccessesAreNoted(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Confidential)
		want := func(after string, total int64, users ...string) {
			t.Helper()
			if gotTotal, got := f.Activity(a.ID); gotTotal != total || !slices.Equal(got, users) {
				t.Errorf("%s: %d accesses of %q, want %d of %q", after, gotTotal, got, total, users)
			}
		}
		m, b := f.NewProofMaker(), f.Browser()
		machine := func() *providertest.Response {
			proof := m.Proof("once", "POST", f.URL+"/oauth/token", "")
			return a.PostAs(b, "/oauth/token", []string{"grant_type", "client_credentials"}, "DPoP", proof)
		}
		access := machine().Want(http.StatusOK).Text("access_token")
		want("client_credentials", 1)
		a.Active(access)
		want("introspection of a token without a user", 2)

		machine().WantRefused(oauth.InvalidDPoPProof)
		a.Refresh("rt_nothing").Want(http.StatusBadRequest)
		f.Userinfo("nothing").Want(http.StatusUnauthorized)
		a.Active("nothing")
		a.Redeem("nothing").Want(http.StatusBadRequest)
		want("refusals", 2)

		tokens := a.Tokens()
		want("code", 3, f.UserID)
		f.Userinfo(tokens["access_token"].(string)).Want(http.StatusOK)
		want("userinfo", 4, f.UserID)
		a.Active(tokens["access_token"].(string))
		want("introspection", 5, f.UserID)
		a.Refresh(tokens["refresh_token"].(string)).Want(http.StatusOK)
		want("refresh", 6, f.UserID)
	})
}

package clientauth_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
)

// TestNonceIsDemanded covers the token endpoint, pushed requests, userinfo and the management API.
func TestNonceIsDemanded(t *testing.T) {
	f := providertest.OnSQLite(t)
	strict := f.NewProvider()
	strict.DPoPNonce = true
	f.Serve(strict)
	a := f.NewApp(providertest.Confidential)
	key := f.NewProofMaker()
	tokenURL := f.URL + "/oauth/token"
	machine := func(jti string) *providertest.Response {
		return a.PostAs(f.Browser(), "/oauth/token", []string{"grant_type", "client_credentials"},
			"DPoP", key.Proof(jti, "POST", tokenURL, ""))
	}
	refused := machine("1").WantRefused(oauth.UseDPoPNonce)
	if refused.Header.Get("Access-Control-Expose-Headers") != "WWW-Authenticate, DPoP-Nonce" {
		t.Error("scripts cannot read the nonce")
	}
	key.Nonce = refused.Header.Get("DPoP-Nonce")
	token := machine("2").Want(http.StatusOK).Text("access_token")

	other := &providertest.ProofMaker{T: t, Key: key.Key, Alg: jose.ES256, Nonce: "other", Now: f.Clock.Now}
	a.PostAs(f.Browser(), "/par", nil, "DPoP", other.Proof("3", "POST", f.URL+"/par", "")).
		Want(http.StatusBadRequest)
	info := f.Browser().Do("GET", f.URL+"/userinfo", nil, "Authorization", "DPoP "+token,
		"DPoP", other.Proof("4", "GET", f.URL+"/userinfo", token))
	info.WantError(http.StatusUnauthorized, oauth.UseDPoPNonce)
	if !strings.Contains(info.Header.Get("WWW-Authenticate"), `error="use_dpop_nonce"`) || info.Header.Get("DPoP-Nonce") == "" {
		t.Errorf("got %v", info.Header)
	}

	call := func(jti string) (http.Header, error) {
		_, header, err := f.BoundCaller("/webhook/list", token,
			key.Proof(jti, "GET", f.URL+"/webhook/list", token))
		return header, err
	}
	_, err := call("5")
	providertest.Must(t, err)
	f.Clock.Add(6 * time.Minute)
	header, err := call("6")
	providertest.WantChallenge(t, "with an old nonce", err, oauth.UseDPoPNonce)
	key.Nonce = header.Get("DPoP-Nonce")
	f.Clock.Add(2 * time.Minute) // the next interval
	_, err = call("7")
	providertest.Must(t, err)
}

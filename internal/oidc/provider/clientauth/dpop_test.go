package clientauth_test

import (
	"crypto/rand"
	"crypto/rsa"
	"net/http"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
)

func TestWeakRSAKeysAreRefusedInProofs(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := f.NewApp(providertest.Confidential)
	for bits, status := range map[int]int{1024: http.StatusBadRequest, 2048: http.StatusOK} {
		key, err := rsa.GenerateKey(rand.Reader, bits)
		providertest.Must(t, err)
		proof := (&providertest.ProofMaker{T: t, Key: key, Alg: jose.RS256, Now: f.Clock.Now}).Proof("1", "POST",
			f.URL+"/oauth/token", "")
		r := a.PostAs(f.Browser(), "/oauth/token", []string{"grant_type", "client_credentials"}, "DPoP", proof)
		if r.Want(status); status != http.StatusOK {
			r.WantRefused(oauth.InvalidDPoPProof)
		}
	}
}

// TestBoundTokensNeedAProofOfTheirKey covers the token endpoint, userinfo, the management API and
// refresh tokens.
func TestBoundTokensNeedAProofOfTheirKey(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Public)
		mine, theirs := f.NewProofMaker(), f.NewProofMaker()
		tokenURL, infoURL := f.URL+"/oauth/token", f.URL+"/userinfo"
		b := f.Browser()
		post := func(proof string, pairs ...string) *providertest.Response {
			return a.PostAs(b, "/oauth/token", pairs, "DPoP", proof)
		}
		code := func() []string {
			return []string{
				"grant_type", "authorization_code", "code", a.Code(), "redirect_uri", providertest.Callback,
				"code_verifier", providertest.Verifier,
			}
		}
		first := mine.Proof("1", "POST", tokenURL, "")
		tokens := post(first, code()...).Want(http.StatusOK)
		if tokens.Text("token_type") != "DPoP" {
			t.Fatalf("got %s", tokens.Body)
		}
		access := tokens.Text("access_token")
		post(first, code()...).WantRefused(oauth.InvalidDPoPProof) // a replay
		for name, proof := range map[string]string{
			"expired":            mine.Ahead(-2*time.Minute).Proof("2", "POST", tokenURL, ""),
			"from the future":    mine.Ahead(time.Hour).Proof("3", "POST", tokenURL, ""),
			"for another method": mine.Proof("4", "GET", tokenURL, ""),
			"for another URI":    mine.Proof("5", "POST", "https://evil.example.com/oauth/token", ""),
			"without a jti":      mine.Proof("", "POST", tokenURL, ""),
			"not a JWT":          "x.y.z",
		} {
			if r := post(proof, code()...); r.Status != http.StatusBadRequest ||
				r.Text("error") != oauth.InvalidDPoPProof {
				t.Errorf("proof %s: got %d %s", name, r.Status, r.Body)
			}
		}

		info := func(scheme string, headers ...string) *providertest.Response {
			return b.Do("GET", infoURL, nil, append(headers, "Authorization", scheme+" "+access)...)
		}
		info("DPoP", "DPoP", mine.Proof("6", "GET", infoURL, access)).Want(http.StatusOK)
		info("Bearer").WantError(http.StatusUnauthorized, oauth.InvalidToken)
		info("DPoP").Want(http.StatusUnauthorized)
		for _, proof := range []string{
			theirs.Proof("7", "GET", infoURL, access),
			mine.Proof("8", "GET", infoURL, "another token"),
		} {
			info("DPoP", "DPoP", proof).WantError(http.StatusUnauthorized, oauth.InvalidDPoPProof)
		}
		if _, err := f.Provider.Caller(t.Context(), access); err == nil {
			t.Error("the management API accepts it as a Bearer token")
		}

		refresh := []string{"grant_type", "refresh_token", "refresh_token", tokens.Text("refresh_token")}
		a.Post("/oauth/token", refresh...).WantRefused(oauth.InvalidDPoPProof)
		post(theirs.Proof("9", "POST", tokenURL, ""), refresh...).WantRefused(oauth.InvalidDPoPProof)
		post(mine.Proof("10", "POST", tokenURL, ""), refresh...).Want(http.StatusOK)
	})
}

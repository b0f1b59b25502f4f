package jwt_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	josejwt "github.com/go-jose/go-jose/v4/jwt"

	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/keys"
	"steward/internal/oidc/provider/jwt"
	"steward/internal/oidc/provider/providertest"
)

// TestForgedAlgorithmsAreRefused presents tokens with `none`, with the algorithm of another key,
// with a public key as an HMAC secret, and with another type.
func TestForgedAlgorithmsAreRefused(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := f.NewApp(providertest.Confidential)
	tokens := a.Tokens()
	parts := strings.Split(tokens["access_token"].(string), ".")
	encode := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	a.WantInvalid(encode(`{"alg":"none","typ":"at+jwt"}`)+"."+parts[1]+".", "alg none")
	a.WantInvalid(encode(`{"alg":"None","typ":"at+jwt"}`)+"."+parts[1]+"."+parts[2], "alg None")
	a.WantInvalid(parts[0]+"."+parts[1]+"."+parts[2][:len(parts[2])-4]+"AAAA", "changed signature")
	a.WantInvalid(tokens["id_token"], "an ID token")

	set, err := f.Keys.Set(t.Context())
	providertest.Must(t, err)
	var claims jwt.AccessClaims
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	providertest.Must(t, err)
	providertest.Must(t, json.Unmarshal(payload, &claims))
	forge := func(alg jose.SignatureAlgorithm, kid string, key any, typ string) string {
		options := (&jose.SignerOptions{}).WithType(jose.ContentType(typ)).WithHeader("kid", kid)
		s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options)
		providertest.Must(t, err)
		text, err := josejwt.Signed(s).Claims(claims).Serialize()
		providertest.Must(t, err)
		return text
	}
	ecKid, ecKey := set.Signing(keys.ForAccessTokens)
	rsaKid, rsaKey := set.Signing(keys.ForIDTokens)
	public, err := json.Marshal(set.JWKS().Keys[0])
	providertest.Must(t, err)
	f.Userinfo(forge(jose.ES256, ecKid, ecKey, "at+jwt")).Want(http.StatusOK) // unchanged, it is accepted
	a.WantInvalid(forge(jose.HS256, ecKid, public, "at+jwt"), "HS256 with a public key")
	a.WantInvalid(forge(jose.RS256, rsaKid, rsaKey, "at+jwt"), "RS256 instead of ES256")
	a.WantInvalid(forge(jose.ES256, ecKid, ecKey, "JWT"), "another typ")
	a.WantInvalid(forge(jose.ES256, "", ecKey, "at+jwt"), "no kid")
	claims.Issuer = "https://evil.example.com"
	a.WantInvalid(forge(jose.ES256, ecKid, ecKey, "at+jwt"), "another issuer")
}

// TestTokensOfRotatedKeys checks that a token is valid until it expires although its key was
// rotated, and that a removed key verifies nothing, not even a new token of somebody who has kept
// the private key.
func TestTokensOfRotatedKeys(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(strings.Replace(providertest.Confidential, "{", `{"access_token_lifetime_seconds": 86400,`, 1))
		before := a.Tokens()["access_token"].(string)
		old, err := f.Keys.Set(t.Context())
		providertest.Must(t, err)
		f.Clock.Add(2 * keys.PublishTime)
		rotated, err := f.Keys.Rotate(f.Ctx)
		providertest.Must(t, err)
		if !rotated {
			t.Fatal("not rotated")
		}
		after := a.Tokens()["access_token"].(string)
		if providertest.Header(t, before)["kid"] == providertest.Header(t, after)["kid"] {
			t.Error("the new token has the kid of the old key")
		}
		f.Clock.Add(24*time.Hour - 3*keys.PublishTime)
		providertest.Must(t, f.Keys.Maintain(f.Ctx))
		f.Userinfo(before).Want(http.StatusOK) // in its last minute

		f.Clock.Add(keys.RetainTime - 24*time.Hour + 4*keys.PublishTime)
		a.WantInvalid(before, "expired")
		client := &oidc.Registered{Client: oidc.Client{ID: a.ID, OrgID: f.OrgID}, Epoch: 1}
		claims := f.Issuer().NewAccess(client, a.ID, nil, "")
		kid, signer := old.Signing(keys.ForAccessTokens)
		key := jose.SigningKey{Algorithm: keys.ForAccessTokens, Key: jose.JSONWebKey{KeyID: kid, Key: signer}}
		s, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("at+jwt"))
		providertest.Must(t, err)
		late, err := josejwt.Signed(s).Claims(claims).Serialize()
		providertest.Must(t, err)
		if !a.Active(late) {
			t.Fatal("the forged token is not accepted while its key is published")
		}
		providertest.Must(t, f.Keys.Maintain(f.Ctx))
		a.WantInvalid(late, "key removed")
	})
}

// TestTokenFormat checks access tokens against RFC 9068 and ID tokens against OpenID Connect Core.
// Both must name a published key.
func TestTokenFormat(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := f.NewApp(providertest.Confidential)
	tokens, again := a.Tokens(), a.Tokens()
	var set struct{ Keys []struct{ Kid, Alg string } }
	providertest.Must(t, json.Unmarshal([]byte(f.Browser().Get(f.URL+"/jwks").Body), &set))
	published := map[any]string{}
	for _, k := range set.Keys {
		published[k.Kid] = k.Alg
	}
	for _, one := range []struct{ field, alg, typ string }{
		{"access_token", "ES256", "at+jwt"}, {"id_token", "RS256", "JWT"},
	} {
		head := providertest.Header(t, tokens[one.field].(string))
		if head["alg"] != one.alg || head["typ"] != one.typ || published[head["kid"]] != one.alg {
			t.Errorf("%s: %v", one.field, head)
		}
	}
	access, now := providertest.Claims(t, tokens["access_token"]), float64(f.Clock.Now().Unix())
	for name, want := range map[string]any{
		"iss": f.URL, "sub": f.UserID, "aud": f.URL, "client_id": a.ID, "scope": "openid profile email offline_access",
		"iat": now, "exp": now + 3600, "auth_time": now,
	} {
		if access[name] != want {
			t.Errorf("access token: %s is %v, want %v", name, access[name], want)
		}
	}
	if access["jti"] == nil || access["jti"] == providertest.Claims(t, again["access_token"])["jti"] {
		t.Error("two access tokens have the same jti, or none")
	}
	known := providertest.Claims(t, tokens["id_token"])
	for name, want := range map[string]any{
		"iss": f.URL, "sub": f.UserID, "aud": a.ID, "nonce": "n-0S6", "exp": now + 3600,
	} {
		if known[name] != want {
			t.Errorf("ID token: %s is %v, want %v", name, known[name], want)
		}
	}
}

// TestTokenOfADeletedKeyIsInvalid presents a token before and after its key was deleted.
func TestTokenOfADeletedKeyIsInvalid(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Confidential)
		token := a.Tokens()["access_token"].(string)
		if !a.Active(token) {
			t.Fatal("a new token is not active")
		}
		rotated, err := f.Keys.Rotate(t.Context())
		providertest.Must(t, err)
		if !rotated || !a.Active(token) {
			t.Fatal("the key does not retire")
		}
		providertest.Must(t, f.DB.Write(t.Context(), func(tx *db.Tx) error {
			if _, err := tx.Exec("DELETE FROM oidc_keys WHERE state = 'retiring'"); err != nil {
				return err
			}
			return tx.Invalidate(keys.Cache)
		}))
		a.WantInvalid(token, "the key is gone")
	})
}

package session_test

import (
	"net/http"
	"testing"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
)

// TestReplayedLogoutTokenDoesNothing has somebody who has read a logout token send it to the server as what it
// is not, after its user has signed in again.
func TestReplayedLogoutTokenDoesNothing(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		n := connect(f)
		p, b := newRelyingParty(f, "shop"), f.Browser()
		p.signIn(b, "openid")
		b.Submit(b.LogOut("client_id", p.ID)).Want(http.StatusOK)
		sendDue(f)
		tokens := n.take()
		if len(tokens) != 1 {
			t.Fatalf("got %d tokens", len(tokens))
		}
		replayed := tokens[0]
		p.signIn(b, "openid")

		p.WantInvalid(replayed, "a logout token as an access token")
		p.Post("/oauth/token", "grant_type", "refresh_token", "refresh_token", replayed).WantRefused(oauth.InvalidGrant)
		p.Post("/revoke", "token", replayed)
		hinted := b.LogOut("id_token_hint", replayed)
		if hinted.Status == http.StatusSeeOther || !b.SignedIn() {
			t.Errorf("a logout token as a hint ends the session: %d %s", hinted.Status, hinted.Body)
		}
		refused := f.Browser().Get(p.AuthorizeURL("scope", "openid", "prompt", "none", "id_token_hint", replayed)).Location()
		if refused.Get("code") != "" {
			t.Errorf("a logout token as a hint signs in: %v", refused)
		}
		sendDue(f)
		if again := n.take(); len(again) != 0 {
			t.Errorf("%d more tokens were sent", len(again))
		}
	})
}

package flow_test

import (
	"net/http"
	"testing"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
)

// TestFlowIsAcceptedOnItsOwnPathOnly presents a genuine flow as a parameter of a client.
func TestFlowIsAcceptedOnItsOwnPathOnly(t *testing.T) {
	f := providertest.OnSQLite(t)
	a, other := f.NewApp(providertest.Confidential), f.NewApp(providertest.Confidential)
	b := f.Browser()
	_, _, values := b.Get(other.AuthorizeURL()).Form()
	b.SignIn(b.Get(a.AuthorizeURL()))
	page := b.Get(a.AuthorizeURL("flow", values.Get("flow"), "prompt", "none"))
	if got := page.Location(); got.Get("error") != oauth.ConsentRequired || got.Get("state") != "xyz" {
		t.Errorf("got %v", got)
	}
	b.Get(f.URL + "/authorize/continue?flow=" + values.Get("flow")).Want(http.StatusOK)
	b.Get(f.URL + "/authorize/continue?flow=x").Want(http.StatusBadRequest)
	b.Get(f.URL + "/authorize/continue").Want(http.StatusBadRequest)
}

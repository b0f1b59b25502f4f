package metadata_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"steward/internal/oidc/provider/providertest"
)

func TestResourceMetadata(t *testing.T) {
	f := providertest.OnSQLite(t)
	r := f.Browser().Get(f.URL + "/.well-known/oauth-protected-resource").Want(http.StatusOK)
	var got struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported"`
		Methods  []string `json:"bearer_methods_supported"`
		DPoP     []string `json:"dpop_signing_alg_values_supported"`
	}
	providertest.Must(t, json.Unmarshal([]byte(r.Body), &got))
	if got.Resource != f.URL || !slices.Equal(got.Servers, []string{f.URL}) ||
		!slices.Equal(got.Methods, []string{"header"}) || len(got.DPoP) == 0 {
		t.Errorf("got %s", r.Body)
	}
	if len(got.Scopes) != 9 || slices.ContainsFunc(got.Scopes, func(s string) bool { return !strings.HasSuffix(s, ":read") }) {
		t.Errorf("the scopes are %v", got.Scopes)
	}
}

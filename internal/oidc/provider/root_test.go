package provider_test

import (
	"net/http"
	"testing"

	"steward/internal/oidc/provider/providertest"
)

func TestRootLeadsBrowsersToTheConsoleAndTellsOthersWhereTheAPIIs(t *testing.T) {
	f := providertest.OnSQLite(t)
	b := f.Browser()
	page := b.Do("GET", f.URL+"/", nil, "Accept", "text/html,application/xhtml+xml,*/*;q=0.8").
		Want(http.StatusSeeOther)
	if to := page.Header.Get("Location"); to != "/console/" {
		t.Errorf("a browser is led to %q", to)
	}
	for _, accept := range []string{"", "*/*", "application/json"} {
		told := b.Do("GET", f.URL+"/", nil, "Accept", accept).Want(http.StatusOK)
		if told.Text("openapi") != f.URL+"/openapi.json" || told.Text("console") != f.URL+"/console/" {
			t.Errorf("got %s", told.Body)
		}
	}
	b.Do("GET", f.URL+"/nothing", nil, "Accept", "text/html").Want(http.StatusNotFound)
}

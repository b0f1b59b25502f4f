package session_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steward/internal/oidc/provider/providertest"
	"steward/internal/webhook/send"
)

// TestLogoutTokensPassTheEgressCheck has a client at a loopback address, which is refused unless it is allowed.
func TestLogoutTokensPassTheEgressCheck(t *testing.T) {
	var got []http.Header
	status := http.StatusOK
	client := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("logout_token") == "" {
			t.Errorf("got form %v", r.PostForm)
		}
		got = append(got, r.Header)
		w.WriteHeader(status)
	}))
	defer client.Close()
	f := providertest.OnSQLite(t)
	end := func(e send.Egress) (attempts, left int) {
		p := f.NewProvider()
		p.Sender = send.New(e, time.Now)
		f.Serve(p)
		app := f.NewApp(strings.Replace(providertest.Confidential, "{", `{"backchannel_logout_uri": "`+client.URL+`", `, 1))
		endSessions(relyingParty{app, client.URL}, 1)
		before := len(got)
		sendDue(f)
		return len(got) - before, count(f)
	}
	if attempts, left := end(send.Egress{}); attempts != 0 || left != 1 {
		t.Errorf("%d attempts at an address that is not allowed, %d logouts are left", attempts, left)
	}
	if attempts, left := end(send.Egress{Loopback: true}); attempts != 1 || left != 1 {
		t.Errorf("%d attempts, %d logouts are left", attempts, left)
	}
	if h := got[0]; h.Get("Content-Type") != "application/x-www-form-urlencoded" || h.Get("Webhook-Id") != "" || h.Get("Steward-Attempt") != "" {
		t.Errorf("got headers %v", h)
	}
	status = http.StatusBadRequest
	if attempts, left := end(send.Egress{Loopback: true}); attempts != 1 || left != 2 {
		t.Errorf("%d attempts at a client that refuses, %d logouts are left", attempts, left)
	}
}

package session

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"steward/internal/webhook/send"
)

// TestLogoutTokensPassTheEgressCheck posts a logout token to a loopback address, which is refused unless it is allowed.
func TestLogoutTokensPassTheEgressCheck(t *testing.T) {
	var got []http.Header
	status := http.StatusOK
	client := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil || r.PostForm.Get("logout_token") != "a.b.c" {
			t.Errorf("got form %v, %v", r.PostForm, err)
		}
		got = append(got, r.Header)
		w.WriteHeader(status)
	}))
	defer client.Close()
	form := url.Values{"logout_token": {"a.b.c"}}
	if status, err := (&LogoutWorker{Sender: send.New(send.Egress{}, time.Now)}).post(t.Context(), client.URL, form); err == nil ||
		status != 0 || !strings.Contains(err.Error(), "loopback") || len(got) > 0 {
		t.Errorf("got %d, %v", status, err)
	}
	allowed := &LogoutWorker{Sender: send.New(send.Egress{Loopback: true}, time.Now)}
	if status, err := allowed.post(t.Context(), client.URL, form); err != nil || status != http.StatusOK {
		t.Errorf("got %d, %v", status, err)
	}
	if len(got) != 1 || got[0].Get("Content-Type") != "application/x-www-form-urlencoded" ||
		got[0].Get("Webhook-Id") != "" || got[0].Get("Steward-Attempt") != "" {
		t.Errorf("got headers %v", got)
	}
	status = http.StatusBadRequest
	if status, err := allowed.post(t.Context(), client.URL, form); err == nil || status != http.StatusBadRequest {
		t.Errorf("got %d, %v", status, err)
	}
}

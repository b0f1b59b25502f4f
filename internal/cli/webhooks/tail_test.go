package webhooks

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"
)

func TestPositionIsRememberedForEachStream(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tail")
	one, other := NewPosition(dir, "a", "bc"), NewPosition(dir, "ab", "c")
	if id, _, err := one.Load(); id != "" || err != nil {
		t.Errorf("at first: %q, %v", id, err)
	}
	for _, id := range []string{"p1", "p2"} {
		if err := one.Save(id); err != nil {
			t.Fatal(err)
		}
	}
	if id, saved, err := one.Load(); id != "p2" || err != nil || time.Since(saved) > time.Hour {
		t.Errorf("one: %q, %v, %v", id, saved, err)
	}
	if id, _, err := other.Load(); id != "" || err != nil {
		t.Errorf("other: %q, %v", id, err)
	}
}

func TestSenderSignsAndKeepsTheBytes(t *testing.T) {
	var got *http.Request
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusTeapot)
	}))
	defer server.Close()
	secret := NewSecret()
	sender, err := NewSender(server.URL+"/hook?fixed=1", secret)
	if err != nil {
		t.Fatal(err)
	}
	r := Request{
		ID: "whrc_1", Method: "PUT", Query: "a=b",
		Headers: map[string]string{"content-type": "application/x", "cookie": "c=1", "authorization": "Basic x", "host": "other", "x-a": "1"},
	}
	r.SetBody([]byte{0xff, 0x00, 'x'})
	answer, err := sender.Send(t.Context(), r)
	if err != nil || answer.Status != http.StatusTeapot || answer.OK() {
		t.Errorf("answer %+v, %v", answer, err)
	}
	want, err := sign(secret, "whrc_1", got.Header.Get("webhook-timestamp"), body)
	if err != nil || got.Header.Get("webhook-signature") != want || got.Header.Get("webhook-id") != "whrc_1" {
		t.Errorf("signature %q, want %q, %v", got.Header.Get("webhook-signature"), want, err)
	}
	if got.Method != "PUT" || got.URL.RawQuery != "fixed=1&a=b" || string(body) != "\xff\x00x" ||
		got.Header.Get("Cookie")+got.Header.Get("Authorization") != "" || got.Header.Get("X-A") != "1" {
		t.Errorf("got %s %s %q %v", got.Method, got.URL, body, got.Header)
	}
	for _, wrong := range []string{"", "secret", "whsec_", "whsec_???"} {
		if _, err := NewSender(server.URL, wrong); err == nil {
			t.Errorf("%q is taken as a secret", wrong)
		}
	}
}

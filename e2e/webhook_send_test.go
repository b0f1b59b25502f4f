package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/e2e/sink"
)

func TestDeliveryHasBodyHeadersAndSignature(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	k, h := sink.New(t), s.NewHook("orders")
	id, secret := s.NewDestination(h, k.URL+"/hook?fixed=1", "headers", map[string]string{
		"X-Tenant": "a", "X-Both": "ours", "Authorization": "Bearer of-the-destination",
	})
	body := "\x00\xffbinary\r\n"
	status, response := s.Raw("PUT %s?secret=1 HTTP/1.1\r\nHost: example.com\r\nContent-Type: application/x-own\r\n"+
		"X-Keep: yes\r\nX-Both: theirs\r\nCookie: a=b\r\nAuthorization: Bearer stolen\r\n"+
		"Proxy-Authorization: Basic eA==\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n"+
		"Keep-Alive: timeout=5\r\nTE: trailers\r\nUpgrade: h2c\r\nWebhook-Id: forged\r\n"+
		"Steward-Attempt: 99\r\nUser-Agent: theirs/1\r\nContent-Length: %d\r\n\r\n%s", h.Path, len(body), body)
	if status != 200 {
		t.Fatalf("got %d: %s", status, response)
	}
	got := k.Wait("/hook", 1)[0]
	first := s.FirstAttempt(h, id)[0]
	if got.Method != "PUT" || got.Body != body || got.Host != strings.TrimPrefix(k.URL, "http://") {
		t.Errorf("sent %s %q to %s", got.Method, got.Body, got.Host)
	}
	want := map[string]string{
		"Content-Type": "application/x-own", "X-Keep": "yes", "X-Both": "ours", "X-Tenant": "a",
		"User-Agent": "theirs/1", "Authorization": "Bearer of-the-destination",
		"Webhook-Id": first.ReceiptID, "Steward-Delivery": first.ID, "Steward-Attempt": "0",
	}
	for name, value := range want {
		if v := got.Header.Values(name); len(v) != 1 || v[0] != value {
			t.Errorf("%s is %q, want %q", name, v, value)
		}
	}
	for _, name := range []string{
		"Cookie", "Proxy-Authorization", "Connection", "X-Hop", "Keep-Alive", "Te", "Upgrade", "Accept-Encoding",
	} {
		if v := got.Header.Values(name); len(v) != 0 {
			t.Errorf("%s was forwarded: %q", name, v)
		}
	}
	checkSignature(t, got, secret)
	list := s.Call("GET", "/webhook/destination-list/"+h.ID, nil).Want(200)
	if strings.Contains(string(list.Body), secret) {
		t.Error("the list has the secret")
	}
	s.Call("POST", "/webhook/destination-create/"+h.ID, object{"type": "url", "config": object{
		"url": k.URL, "headers": map[string]string{"Webhook-Signature": "v1,forged"},
	}}).Want(422)
}

// checkSignature verifies a signature as the Standard Webhooks specification says.
func checkSignature(t *testing.T, a sink.Arrival, secret string) {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || !strings.HasPrefix(secret, "whsec_") || len(key) < 24 || len(key) > 64 {
		t.Fatalf("not a secret: %v", err)
	}
	stamp := a.Header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || a.At.Sub(time.Unix(seconds, 0)).Abs() > time.Minute {
		t.Errorf("the timestamp is %q", stamp)
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", a.Header.Get("Webhook-Id"), stamp, a.Body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); a.Header.Get("Webhook-Signature") != want {
		t.Errorf("the signature is %q, want %q", a.Header.Get("Webhook-Signature"), want)
	}
}

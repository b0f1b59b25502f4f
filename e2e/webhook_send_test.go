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
)

func TestDeliveryHasBodyHeadersAndSignature(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h := newSink(t), s.hook("orders")
		id, secret := s.destination(h, k.URL+"/hook?fixed=1", "headers", map[string]string{
			"X-Tenant": "a", "X-Both": "ours", "Authorization": "Bearer of-the-destination",
		})
		body := "\x00\xffbinary\r\n"
		status, response := s.raw("PUT %s?secret=1 HTTP/1.1\r\nHost: example.com\r\nContent-Type: application/x-own\r\n"+
			"X-Keep: yes\r\nX-Both: theirs\r\nCookie: a=b\r\nAuthorization: Bearer stolen\r\n"+
			"Proxy-Authorization: Basic eA==\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n"+
			"Keep-Alive: timeout=5\r\nTE: trailers\r\nUpgrade: h2c\r\nWebhook-Id: forged\r\n"+
			"Steward-Attempt: 99\r\nUser-Agent: theirs/1\r\nContent-Length: %d\r\n\r\n%s", h.path, len(body), body)
		if status != 200 {
			t.Fatalf("got %d: %s", status, response)
		}
		got := k.wait("/hook", 1)[0]
		first := s.firstAttempt(h, id)[0]
		if got.method != "PUT" || got.body != body || got.host != strings.TrimPrefix(k.URL, "http://") {
			t.Errorf("sent %s %q to %s", got.method, got.body, got.host)
		}
		want := map[string]string{
			"Content-Type": "application/x-own", "X-Keep": "yes", "X-Both": "ours", "X-Tenant": "a",
			"User-Agent": "theirs/1", "Authorization": "Bearer of-the-destination",
			"Webhook-Id": first.ReceiptID, "Steward-Delivery": first.ID, "Steward-Attempt": "0",
		}
		for name, value := range want {
			if v := got.header.Values(name); len(v) != 1 || v[0] != value {
				t.Errorf("%s is %q, want %q", name, v, value)
			}
		}
		for _, name := range []string{
			"Cookie", "Proxy-Authorization", "Connection", "X-Hop", "Keep-Alive", "Te", "Upgrade", "Accept-Encoding",
		} {
			if v := got.header.Values(name); len(v) != 0 {
				t.Errorf("%s was forwarded: %q", name, v)
			}
		}
		checkSignature(t, got, secret)
		list := s.call("GET", "/webhook/destination-list/"+h.ID, nil).want(200)
		if strings.Contains(string(list.body), secret) {
			t.Error("the list has the secret")
		}
		s.call("POST", "/webhook/destination-create/"+h.ID, object{"type": "url", "config": object{
			"url": k.URL, "headers": map[string]string{"Webhook-Signature": "v1,forged"},
		}}).want(422)
	})
}

// checkSignature verifies a signature as the Standard Webhooks specification says.
func checkSignature(t *testing.T, a arrival, secret string) {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || !strings.HasPrefix(secret, "whsec_") || len(key) < 24 || len(key) > 64 {
		t.Fatalf("not a secret: %v", err)
	}
	stamp := a.header.Get("Webhook-Timestamp")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || a.at.Sub(time.Unix(seconds, 0)).Abs() > time.Minute {
		t.Errorf("the timestamp is %q", stamp)
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", a.header.Get("Webhook-Id"), stamp, a.body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); a.header.Get("Webhook-Signature") != want {
		t.Errorf("the signature is %q, want %q", a.header.Get("Webhook-Signature"), want)
	}
}

package e2e

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/e2e/sink"
	"steward/internal/waittest"
)

// sendSigned sends a body as Stripe does.
func sendSigned(s *installation.Steward, path, body, secret string) *installation.Response {
	at := fmt.Sprint(time.Now().Unix())
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(at + "." + body))
	r, err := s.Send("POST", path, strings.NewReader(body), "Stripe-Signature", "t="+at+",v1="+hex.EncodeToString(mac.Sum(nil)))
	s.Must(err)
	return r
}

func stripeWith(secrets ...string) object {
	return object{"verification": object{"type": "stripe", "secrets": secrets}}
}

// TestVerifiedAndFilteredRequestsAreDelivered sends requests with and without signature to a webhook whose
// destination has a filter.
func TestVerifiedAndFilteredRequestsAreDelivered(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		k := sink.New(t)
		h := s.NewHook("payments")
		s.Call("PUT", "/webhook/update/"+h.ID, stripeWith("whsec_a")).Want(200)
		s.Call("POST", "/webhook/destination-create/"+h.ID, object{"type": "url", "config": object{
			"url": k.URL + "/paid", "filter": object{"body": object{"type": object{"$startsWith": "charge."}}},
		}}).Want(201)
		sendSigned(s, h.Path, `{"type":"charge.paid"}`, "whsec_a").Want(200)
		sendSigned(s, h.Path, `{"type":"refund.made"}`, "whsec_a").Want(200)
		sendSigned(s, h.Path, `{"type":"charge.forged"}`, "whsec_b").Want(401)
		sendSigned(s, h.Path, `{"type":"charge.last"}`, "whsec_a").Want(200)
		bodies := map[string]bool{}
		for _, r := range k.Wait("/paid", 2) {
			bodies[string(r.Body)] = true
		}
		if len(bodies) != 2 || !bodies[`{"type":"charge.paid"}`] || !bodies[`{"type":"charge.last"}`] {
			t.Errorf("delivered: %v", bodies)
		}
		if total := s.Total("/webhook/receipt-list/" + h.ID); total != "3" {
			t.Errorf("%s receipts, want 3", total)
		}
		list := s.Call("GET", "/webhook/receipt-list/"+h.ID, nil).Want(200)
		if n := strings.Count(string(list.Body), `"filtered":1`); n != 1 {
			t.Errorf("%d receipts are filtered: %s", n, list.Body)
		}
		rejected := s.Call("GET", "/webhook/rejected-list/"+h.ID, nil).Want(200)
		if !strings.Contains(string(rejected.Body), `"reason":"wrong_signature"`) || !strings.Contains(string(rejected.Body), "charge.forged") {
			t.Errorf("rejected: %s", rejected.Body)
		}
		other := s.SecondOrganization()
		other.Call("GET", "/webhook/rejected-list/"+h.ID, nil).Want(404)
		other.Call("POST", "/webhook/filter-test/"+h.ID, object{"filter": object{}}).Want(404)
	})
}

// TestVerificationReachesOtherReplicas changes the secret of a webhook that the other replica has in its
// cache.
func TestVerificationReachesOtherReplicas(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "postgres")
	other := s.Replica()
	h := s.NewHook("payments")
	s.Ingest(h, "1")
	other.Ingest(h, "2")
	s.Call("PUT", "/webhook/update/"+h.ID, stripeWith("whsec_a")).Want(200)
	sendSigned(s, h.Path, "3", "whsec_b").Want(401)
	waittest.True(t, "the other replica to verify", func() bool { return sendSigned(other, h.Path, "3", "whsec_b").Status == 401 })
	sendSigned(other, h.Path, "4", "whsec_a").Want(200)
	other.Call("PUT", "/webhook/update/"+h.ID, stripeWith("whsec_b", "***")).Want(200)
	waittest.True(t, "both secrets to be accepted", func() bool { return sendSigned(s, h.Path, "5", "whsec_b").Status == 200 })
	sendSigned(s, h.Path, "6", "whsec_a").Want(200)
}

// TestVerificationSecretsAreNotInTheDataDirectory looks for them, and for the credentials of rejected
// requests, in the files of the database.
func TestVerificationSecretsAreNotInTheDataDirectory(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	h := s.NewHook("payments")
	const secret, credential, plain = "whsec_a-secret-of-the-sender", "a-credential-of-the-sender", "the-type-is-no-secret"
	s.Call("PUT", "/webhook/update/"+h.ID, object{"description": plain, "verification": object{
		"type": "stripe", "secrets": []string{secret}, "challenge": "meta", "challenge_token": credential,
	}}).Want(200)
	r, err := s.Send("POST", h.Path, strings.NewReader("x"), "X-Api-Key", credential)
	s.Must(err)
	r.Want(401)
	s.Stop()
	files := map[string]bool{secret: false, credential: false, plain: false}
	s.Must(filepath.Walk(s.Dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		for text := range files {
			files[text] = files[text] || bytes.Contains(content, []byte(text))
		}
		return err
	}))
	if files[secret] || files[credential] || !files[plain] {
		t.Errorf("found: %v", files)
	}
}

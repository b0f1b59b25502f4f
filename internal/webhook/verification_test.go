package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/period"
	"steward/internal/stamp"
	"steward/internal/webhook/stats"
	"steward/internal/webhook/verify"
)

func githubSettings(secrets ...string) *verify.Settings {
	return &verify.Settings{Type: verify.GitHub, Secrets: secrets}
}

// verified makes a webhook whose requests are verified.
func (h *fixture) verified(v *verify.Settings) (w Webhook, path string) {
	h.t.Helper()
	w, err := h.http.Create(as(alice), &createIn{NewWebhook{Name: "orders", Verification: page.Some(*v)}})
	must(h.t, err)
	return w, strings.TrimPrefix(w.URL, "http://steward.test")
}

func (h *fixture) setVerification(w Webhook, v *verify.Settings) (Webhook, error) {
	return h.update(alice, w.ID, Patch{Verification: page.FromPtr(v)}, "")
}

// postSigned sends a body with GitHub's signature.
func (h *fixture) postSigned(path, body, secret string) *httptest.ResponseRecorder {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	return h.request(r)
}

func (h *fixture) rejected(c *auth.Caller, w Webhook) page.Page[Rejected] {
	h.t.Helper()
	found, err := h.http.Rejected(as(c), &RejectedRequest{Path: Path{w.ID}, Paging: page.Paging{Limit: 1000}})
	must(h.t, err)
	return found
}

func wantStatus(t *testing.T, rec *httptest.ResponseRecorder, want int) {
	t.Helper()
	if rec.Code != want {
		t.Fatalf("status %d, want %d: %s", rec.Code, want, rec.Body)
	}
}

func TestUnverifiedRequestsAreRejected(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, path := h.verified(githubSettings("a-secret"))
		h.destination(alice, w.ID, `{"url": "http://a.test"}`)
		wantStatus(t, h.postSigned(path, `{"n": 1}`, "a-secret"), 200)
		rec := h.postSigned(path, `{"n": 2}`, "another")
		wantStatus(t, rec, 401)
		if !strings.Contains(rec.Body.String(), "wrong signature") || rec.Header().Get("WWW-Authenticate") != "Signature" {
			t.Errorf("%v %s", rec.Header(), rec.Body)
		}
		r := httptest.NewRequest("PUT", path+"?q=1", strings.NewReader("\xff"))
		r.Header.Set("Content-Type", "text/plain")
		r.Header.Set("X-Api-Key", "a key")
		wantStatus(t, h.request(r), 401)

		found := h.rejected(alice, w)
		if found.Total != 2 || len(found.Items) != 2 {
			t.Fatalf("rejected: %+v", found)
		}
		last, first := found.Items[0], found.Items[1]
		if last.Reason != verify.MissingSignature || last.Method != "PUT" || last.Query != "q=1" || last.Encoding != "base64" ||
			string(last.Payload) != `"/w=="` || last.Size != 1 || last.ContentType != "text/plain" || last.Headers["x-api-key"] != "a key" ||
			last.Truncated || last.WebhookID != w.ID || last.Date != stamp.Of(h.clock.now()) {
			t.Errorf("the last one is %+v", last)
		}
		if first.Reason != verify.WrongSignature || string(first.Payload) != `{"n":2}` {
			t.Errorf("the first one is %+v", first)
		}
		for _, c := range []*auth.Caller{withRole(auth.Viewer), {OrgID: "org_a", Role: auth.Owner, Stale: true}} {
			if got := h.rejected(c, w).Items[0].Headers["x-api-key"]; got != "***" {
				t.Errorf("%s sees %q", c.Role, got)
			}
		}
		_, err := h.http.Rejected(as(bob), &RejectedRequest{Path: Path{w.ID}})
		mustBe(t, err, errs.NotFound)

		if n := len(h.receipts(w)); n != 1 {
			t.Errorf("%d receipts, want 1", n)
		}
		h.clock.advance(time.Minute)
		sums, err := h.http.Analytics(as(alice), &struct{ stats.Query }{stats.Query{Query: period.Query{Granularity: "hour"}}})
		must(t, err)
		if text, _ := json.Marshal(sums); !strings.Contains(string(text), `"total_received":1`) {
			t.Errorf("analytics: %s", text)
		}
		var logged int
		must(t, d.Read(t.Context()).Row(`SELECT count(*) FROM webhook_log`).Scan(&logged))
		if logged != 1 {
			t.Errorf("%d rows in the log, want 1", logged)
		}
	})
}

func TestVerificationSecretsAreReplaced(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, path := h.verified(githubSettings("one"))
		wantStatus(t, h.postSigned(path, "x", "one"), 200)
		change := func(secrets ...string) {
			t.Helper()
			w, err := h.setVerification(w, githubSettings(secrets...))
			must(t, err)
			if got := strings.Join(w.Verification.Secrets, " "); got != strings.TrimSpace(strings.Repeat("*** ", len(secrets))) {
				t.Errorf("the answer has %s", got)
			}
		}
		change("two", "***")
		wantStatus(t, h.postSigned(path, "x", "one"), 200)
		wantStatus(t, h.postSigned(path, "x", "two"), 200)
		change("***")
		wantStatus(t, h.postSigned(path, "x", "one"), 401)
		wantStatus(t, h.postSigned(path, "x", "two"), 200)
		_, err := h.setVerification(w, githubSettings("***", "***"))
		mustBe(t, err, errs.Invalid)
		_, err = h.update(alice, w.ID, Patch{Name: page.Some("renamed")}, "")
		must(t, err)
		wantStatus(t, h.postSigned(path, "x", "one"), 401)
		_, err = h.setVerification(w, nil)
		must(t, err)
		wantStatus(t, h.post(path, "x"), 200)
		got, err := h.get(alice, w.ID)
		must(t, err)
		if got.Verification != nil {
			t.Errorf("still %+v", got.Verification)
		}
		_, err = h.setVerification(w, githubSettings("***"))
		mustBe(t, err, errs.Invalid)
	})
}

// TestVerificationSecretsStayHidden looks at every response and at what is stored.
func TestVerificationSecretsStayHidden(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		v := githubSettings("hidden-one", "hidden-two")
		v.Challenge = "meta"
		v.ChallengeToken = "hidden-token"
		w, _ := h.verified(v)
		got, err := h.get(alice, w.ID)
		must(t, err)
		listed, err := h.http.List(as(alice), &ListRequest{Paging: page.Paging{Limit: 10}})
		must(t, err)
		updated, err := h.setVerification(w, v)
		must(t, err)
		rotated, err := h.http.Rotate(as(alice), &struct {
			Path
			page.IfMatch
		}{Path: Path{w.ID}})
		must(t, err)
		for name, response := range map[string]any{"create": w, "get": got, "list": listed, "update": updated, "rotate": rotated} {
			text, err := json.Marshal(response)
			must(t, err)
			if strings.Contains(string(text), "hidden") || !strings.Contains(string(text), `"secrets":["***","***"]`) ||
				!strings.Contains(string(text), `"challenge_token":"***"`) {
				t.Errorf("%s: %s", name, text)
			}
		}
		var shown string
		var sealed []byte
		must(t, d.Read(t.Context()).Row(`SELECT verification, verification_secrets FROM webhooks`).Scan(&shown, &sealed))
		if strings.Contains(shown, "hidden") || bytes.Contains(sealed, []byte("hidden")) {
			t.Errorf("stored: %s, %q", shown, sealed)
		}
		if text := strings.Join(h.audit.Read("action"), " ") + fmt.Sprint(h.audit.Read("target")); strings.Contains(text, "hidden") {
			t.Errorf("audit: %s", text)
		}
	})
}

func TestStaleBrowsersCannotChangeVerification(t *testing.T) {
	h := newFixture(t, dbtest.Open(t, db.SQLite))
	w, _ := h.webhook(alice)
	stale := &auth.Caller{OrgID: "org_a", UserID: "usr_alice", Role: auth.Owner, Stale: true}
	update := func(p Patch) error {
		_, err := h.http.Update(as(stale), &struct {
			Path
			page.IfMatch
			Body Patch
		}{Path: Path{w.ID}, Body: p})
		return err
	}
	mustBe(t, update(Patch{Verification: page.Some(*githubSettings("s"))}), errs.Reauthentication)
	mustBe(t, update(Patch{Verification: page.Opt[verify.Settings]{Sent: true, Null: true}}), errs.Reauthentication)
	must(t, update(Patch{Name: page.Some("renamed")}))
}

func TestVerificationWaitsForEarlierVersions(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`INSERT INTO processes (id, seen_at, schema) VALUES ('rep_old', $1, $2)`,
				h.clock.now().UnixMicro(), schemaOfVerification-1)
			return err
		}))
		_, err := h.setVerification(w, githubSettings("s"))
		mustBe(t, err, errs.Conflict)
		_, err = h.setVerification(w, nil)
		must(t, err)
		h.clock.advance(time.Hour)
		_, err = h.setVerification(w, githubSettings("s"))
		must(t, err)
	})
}

func TestChallengesAreAnswered(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		v := githubSettings("s")
		v.Challenge = "field"
		v.ChallengeField = "echo"
		w, path := h.verified(v)
		rec := h.postSigned(path+"?echo=%3Cb%3E", "x", "s")
		wantStatus(t, rec, 200)
		if rec.Body.String() != "<b>" || rec.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%v %q", rec.Header(), rec.Body)
		}
		wantStatus(t, h.post(path+"?echo=abc", "x"), 401)
		wantStatus(t, h.postSigned(path+"?echo="+strings.Repeat("x", 1025), "x", "s"), 400)
		if n := len(h.receipts(w)); n != 0 {
			t.Errorf("%d receipts", n)
		}
		v = githubSettings("s")
		v.Challenge = "meta"
		v.ChallengeToken = "token"
		_, err := h.setVerification(w, v)
		must(t, err)
		get := func(token string) *httptest.ResponseRecorder {
			return h.request(httptest.NewRequest("GET", path+"?hub.mode=subscribe&hub.challenge=42&hub.verify_token="+token, nil))
		}
		rec = get("token")
		wantStatus(t, rec, 200)
		if rec.Body.String() != "42" {
			t.Errorf("answer %q", rec.Body)
		}
		wantStatus(t, get("toke"), 401)
		if last := h.rejected(alice, w).Items[0]; last.Reason != verify.WrongToken || last.Query != "" {
			t.Errorf("the list shows the token: %+v", last)
		}
	})
}

func TestRejectedRequestsAreBounded(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, path := h.verified(githubSettings("s"))
		other, otherPath := h.verified(githubSettings("s"))
		wantStatus(t, h.post(otherPath, "x"), 401)
		r := httptest.NewRequest("POST", path+"?"+strings.Repeat("q", 10<<10), strings.NewReader(strings.Repeat("é", 1<<16)))
		for i := range 40 {
			r.Header.Set(fmt.Sprintf("X-Header-%02d", i), strings.Repeat("h", 1000))
		}
		wantStatus(t, h.request(r), 401)
		large := h.rejected(alice, w).Items[0]
		kept := len(large.Query) + len(large.Payload)
		for name, value := range large.Headers {
			kept += len(name) + len(value)
		}
		if !large.Truncated || large.Size != 1<<17 || kept > maxRejectedBytes*3/2 || kept < maxRejectedBytes/2 {
			t.Errorf("%d bytes are kept; truncated %v, size %d", kept, large.Truncated, large.Size)
		}
		var stored int
		must(t, d.Read(t.Context()).Row(`SELECT length(body) + length(query) FROM webhook_rejected WHERE truncated`).Scan(&stored))
		if stored > maxRejectedBytes {
			t.Errorf("%d bytes are stored", stored)
		}
		var batch []*rejection
		for i := range maxRejected + 20 {
			r := httptest.NewRequest("POST", path, nil)
			r.SetPathValue("id", w.ID)
			batch = append(batch, h.store.newRejection(r, "org_a", verify.MissingSignature, []byte(fmt.Sprint(i))))
		}
		must(t, d.Write(t.Context(), func(tx *db.Tx) error { return h.store.rejectBatch(tx, batch) }))
		found := h.rejected(alice, w)
		if found.Total != maxRejected || string(found.Items[0].Payload) != fmt.Sprint(maxRejected+19) {
			t.Fatalf("%d are kept, the last is %s", found.Total, found.Items[0].Payload)
		}
		if n := h.rejected(alice, other).Total; n != 1 {
			t.Errorf("the other webhook has %d", n)
		}
		h.clock.advance(keepRejected + time.Second)
		if n := h.rejected(alice, w).Total; n != 0 {
			t.Errorf("%d are listed after a day", n)
		}
		retention := &Retention{Store: h.store, Keep: 30 * 24 * time.Hour}
		must(t, retention.Run(t.Context()))
		var left int
		must(t, d.Read(t.Context()).Row(`SELECT count(*) FROM webhook_rejected`).Scan(&left))
		if left != 0 {
			t.Errorf("%d are stored after a day", left)
		}
	})
}

func TestRejectedRequestsGoWithTheirWebhook(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, path := h.verified(githubSettings("s"))
		wantStatus(t, h.post(path, "x"), 401)
		must(t, h.store.Delete(as(alice), "org_a", w.ID, page.IfMatch{}))
		retention := &Retention{Store: h.store, Keep: 30 * 24 * time.Hour}
		must(t, retention.Run(t.Context()))
		var left int
		must(t, d.Read(t.Context()).Row(`SELECT count(*) FROM webhook_rejected`).Scan(&left))
		if left != 0 {
			t.Errorf("%d are left", left)
		}
	})
}

package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestWebhookRoles: only owners and admins create internal webhooks, and viewers do not see the values
// of a destination's headers, whether they use an access token or a key that they made as a member.
func TestWebhookRoles(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		scopes := []string{"openid", "apikey:write", "webhook:read", "webhook:write"}
		tool := s.relyingParty(s.application(object{"scopes": scopes}), scopes...)
		b, userID := s.invite("grace@example.com", "member")
		token, _ := tool.signIn(b)
		byToken := s.as(token.AccessToken)
		byKey := s.as(byToken.call("POST", "/cli/apikey", object{"name": "k"}).want(201).text("value"))
		h := s.hook("orders")
		s.destination(h, "http://127.0.0.1:9/", "headers", object{"Authorization": "Bearer hidden"})

		internal := object{"name": "system", "internal": true}
		for _, caller := range []*steward{byToken, byKey} {
			refused := caller.call("POST", "/webhook/create", internal).want(403)
			if detail := refused.text("detail"); !strings.Contains(detail, "owner or admin") {
				t.Errorf("the refusal does not name the role: %s", detail)
			}
			caller.call("POST", "/webhook/create", object{"name": "own"}).want(201)
			if got := caller.headerOf(h); got != "Bearer hidden" {
				t.Errorf("a member sees %q", got)
			}
		}
		s.call("PUT", "/oidc/org/members/"+userID, object{"role": "viewer"}).want(200)
		for _, caller := range []*steward{byToken, byKey} {
			if got := caller.headerOf(h); got != "***" {
				t.Errorf("a viewer sees %q", got)
			}
		}
		s.call("PUT", "/oidc/org/members/"+userID, object{"role": "admin"}).want(200)
		if made := byKey.call("POST", "/webhook/create", internal).want(201); made.get("internal") != true {
			t.Errorf("an admin gets %s", made.body)
		}
	})
}

// headerOf returns the Authorization header of a webhook's only destination, which is the same on both
// faces.
func (s *steward) headerOf(h hook) string {
	s.t.Helper()
	type destinations []struct {
		Config struct{ Headers map[string]string }
	}
	var bare destinations
	s.call("GET", "/webhook/destination-list/"+h.ID, nil).want(200).decode(&bare)
	var enveloped struct{ Data destinations }
	s.call("GET", "/sdk/webhook/destination-list/"+h.ID, nil).want(200).decode(&enveloped)
	value := bare[0].Config.Headers["Authorization"]
	if other := enveloped.Data[0].Config.Headers["Authorization"]; other != value {
		s.t.Errorf("the SDK face has %q, the other one %q", other, value)
	}
	return value
}

// TestRetryChecksItsBodyAndTellsTheTime: the body is an object or nothing. The answer has due_at, as
// lists have it for pending deliveries.
func TestRetryChecksItsBodyAndTellsTheTime(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h := newSink(t), s.hook("orders")
		k.status("/broken", 500, "Retry-After", "3600")
		id, _ := s.destination(h, k.URL+"/broken")
		s.ingest(h, "x")
		chain := s.firstAttempt(h, id)
		waiting := s.call("GET", "/webhook/delivery-list/"+h.ID+"?status=pending", nil).want(200)
		var listed []struct {
			Date  time.Time
			DueAt time.Time `json:"due_at"`
		}
		waiting.decode(&listed)
		if pause := listed[0].DueAt.Sub(listed[0].Date); pause != time.Hour {
			t.Errorf("the waiting attempt is due after %v, want an hour: %s", pause, waiting.body)
		}
		ended := s.call("GET", "/webhook/delivery-list/"+h.ID+"?status=failed", nil).want(200)
		if strings.Contains(string(ended.body), `"due_at"`) {
			t.Errorf("an ended delivery has due_at: %s", ended.body)
		}

		path := "/webhook/delivery-retry/" + h.ID + "/" + chain[0].ID
		for body, want := range map[string]int{`[]`: 422, `"x"`: 422, `1`: 422, `true`: 422, `null`: 422, `{`: 400, `{} {}`: 400} {
			if got := s.call("POST", path, body); got.status != want {
				t.Errorf("body %s: got %d, want %d: %s", body, got.status, want, got.body)
			}
		}
		other, err := s.send("POST", path, strings.NewReader("{}"), "Content-Type", "text/plain", "Authorization", "Bearer "+s.key)
		s.must(err)
		other.want(415)
		if n := k.count("/broken"); n != 1 {
			t.Errorf("%d requests were sent, want 1", n)
		}
		again := s.call("POST", path, `{"unknown": 1}`).want(200)
		due, err := time.Parse(time.RFC3339, again.text("due_at"))
		s.must(err)
		if !due.Before(listed[0].DueAt) {
			t.Errorf("due %v after the retry, %v before", due, listed[0].DueAt)
		}
	})
}

// TestReceiptsAndRunsHaveETags: with If-None-Match nothing is sent that the client has already.
func TestReceiptsAndRunsHaveETags(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		h := s.hook("orders")
		receipt := "/webhook/receipt-get/" + h.ID + "/" + s.ingest(h, `{"n": 1}`)
		run := object{"id": "run_1", "sessionId": "sess_1", "evalId": "eval_1", "evalIdentifier": "e", "orgId": s.orgID, "projectId": "p1"}
		s.call("POST", "/evalrun", run).want(201)
		for _, path := range []string{receipt, "/cli/eval-run/run_1", "/sdk" + receipt} {
			tag := s.call("GET", path, nil).want(200).header.Get("ETag")
			if len(tag) < 3 || tag[0] != '"' {
				t.Fatalf("%s has the ETag %q, want a strong one", path, tag)
			}
			if same := s.call("GET", path, nil, "If-None-Match", tag).want(304); len(same.body) > 0 {
				t.Errorf("%s: a 304 with %s", path, same.body)
			}
			s.call("GET", path, nil, "If-None-Match", `"other"`).want(200)
		}
		tag := s.call("GET", "/cli/eval-run/run_1", nil).header.Get("ETag")
		s.call("PUT", "/evalrun", object{"id": "run_1", "result": object{"score": 1}}).want(200)
		s.call("GET", "/cli/eval-run/run_1", nil, "If-None-Match", tag).want(200)
	})
}

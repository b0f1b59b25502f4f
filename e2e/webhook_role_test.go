package e2e

import (
	"strings"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/e2e/sink"
)

// TestWebhookRoles: only owners and admins create internal webhooks, and viewers do not see the values
// of a destination's headers, whether they use an access token or a key that they made as a member.
func TestWebhookRoles(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	scopes := []string{"openid", "apikey:write", "webhook:read", "webhook:write"}
	tool := s.NewRelyingParty(s.NewApplication(object{"scopes": scopes}), scopes...)
	b, userID := s.Invite("grace@example.com", "member")
	token, _ := tool.SignIn(b)
	byToken := s.As(token.AccessToken)
	byKey := s.As(byToken.Call("POST", "/cli/apikey", object{"name": "k"}).Want(201).Text("value"))
	h := s.NewHook("orders")
	s.NewDestination(h, "http://127.0.0.1:9/", "headers", object{"Authorization": "Bearer hidden"})

	internal := object{"name": "system", "internal": true}
	for _, caller := range []*installation.Steward{byToken, byKey} {
		refused := caller.Call("POST", "/webhook/create", internal).Want(403)
		if detail := refused.Text("detail"); !strings.Contains(detail, "owner or admin") {
			t.Errorf("the refusal does not name the role: %s", detail)
		}
		caller.Call("POST", "/webhook/create", object{"name": "own"}).Want(201)
		if got := headerOf(caller, h); got != "Bearer hidden" {
			t.Errorf("a member sees %q", got)
		}
	}
	s.Call("PUT", "/oidc/org/members/"+userID, object{"role": "viewer"}).Want(200)
	for _, caller := range []*installation.Steward{byToken, byKey} {
		if got := headerOf(caller, h); got != "***" {
			t.Errorf("a viewer sees %q", got)
		}
	}
	s.Call("PUT", "/oidc/org/members/"+userID, object{"role": "admin"}).Want(200)
	if made := byKey.Call("POST", "/webhook/create", internal).Want(201); made.Get("internal") != true {
		t.Errorf("an admin gets %s", made.Body)
	}
}

// headerOf returns the Authorization header of a webhook's only destination, which is the same on both
// faces.
func headerOf(s *installation.Steward, h installation.Hook) string {
	s.T.Helper()
	type destinations []struct {
		Config struct{ Headers map[string]string }
	}
	var bare destinations
	s.Call("GET", "/webhook/destination-list/"+h.ID, nil).Want(200).Decode(&bare)
	var enveloped struct{ Data destinations }
	s.Call("GET", "/sdk/webhook/destination-list/"+h.ID, nil).Want(200).Decode(&enveloped)
	value := bare[0].Config.Headers["Authorization"]
	if other := enveloped.Data[0].Config.Headers["Authorization"]; other != value {
		s.T.Errorf("the SDK face has %q, the other one %q", other, value)
	}
	return value
}

// TestRetryChecksItsBodyAndTellsTheTime: the body is an object or nothing. The answer has due_at, as
// lists have it for pending deliveries.
func TestRetryChecksItsBodyAndTellsTheTime(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	k, h := sink.New(t), s.NewHook("orders")
	k.Status("/broken", 500, "Retry-After", "3600")
	id, _ := s.NewDestination(h, k.URL+"/broken")
	s.Ingest(h, "x")
	chain := s.FirstAttempt(h, id)
	waiting := s.Call("GET", "/webhook/delivery-list/"+h.ID+"?status=pending", nil).Want(200)
	var listed []struct {
		Date  time.Time
		DueAt time.Time `json:"due_at"`
	}
	waiting.Decode(&listed)
	if pause := listed[0].DueAt.Sub(listed[0].Date); pause != time.Hour {
		t.Errorf("the waiting attempt is due after %v, want an hour: %s", pause, waiting.Body)
	}
	ended := s.Call("GET", "/webhook/delivery-list/"+h.ID+"?status=failed", nil).Want(200)
	if strings.Contains(string(ended.Body), `"due_at"`) {
		t.Errorf("an ended delivery has due_at: %s", ended.Body)
	}

	path := "/webhook/delivery-retry/" + h.ID + "/" + chain[0].ID
	for body, want := range map[string]int{`[]`: 422, `"x"`: 422, `1`: 422, `true`: 422, `null`: 422, `{`: 400, `{} {}`: 400} {
		if got := s.Call("POST", path, body); got.Status != want {
			t.Errorf("body %s: got %d, want %d: %s", body, got.Status, want, got.Body)
		}
	}
	other, err := s.Send("POST", path, strings.NewReader("{}"), "Content-Type", "text/plain", "Authorization", "Bearer "+s.Key)
	s.Must(err)
	other.Want(415)
	if n := k.Count("/broken"); n != 1 {
		t.Errorf("%d requests were sent, want 1", n)
	}
	again := s.Call("POST", path, `{"unknown": 1}`).Want(200)
	due, err := time.Parse(time.RFC3339, again.Text("due_at"))
	s.Must(err)
	if !due.Before(listed[0].DueAt) {
		t.Errorf("due %v after the retry, %v before", due, listed[0].DueAt)
	}
}

// TestReceiptsAndRunsHaveETags: with If-None-Match nothing is sent that the client has already.
func TestReceiptsAndRunsHaveETags(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		h := s.NewHook("orders")
		receipt := "/webhook/receipt-get/" + h.ID + "/" + s.Ingest(h, `{"n": 1}`)
		run := object{"id": "run_1", "sessionId": "sess_1", "evalId": "eval_1", "evalIdentifier": "e", "orgId": s.OrgID, "projectId": "p1"}
		s.Call("POST", "/evalrun", run).Want(201)
		for _, path := range []string{receipt, "/cli/eval-run/run_1", "/sdk" + receipt} {
			tag := s.Call("GET", path, nil).Want(200).Header.Get("ETag")
			if len(tag) < 3 || tag[0] != '"' {
				t.Fatalf("%s has the ETag %q, want a strong one", path, tag)
			}
			if same := s.Call("GET", path, nil, "If-None-Match", tag).Want(304); len(same.Body) > 0 {
				t.Errorf("%s: a 304 with %s", path, same.Body)
			}
			s.Call("GET", path, nil, "If-None-Match", `"other"`).Want(200)
		}
		tag := s.Call("GET", "/cli/eval-run/run_1", nil).Header.Get("ETag")
		s.Call("PUT", "/evalrun", object{"id": "run_1", "result": object{"score": 1}}).Want(200)
		s.Call("GET", "/cli/eval-run/run_1", nil, "If-None-Match", tag).Want(200)
	})
}

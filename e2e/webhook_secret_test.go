package e2e

import (
	"maps"
	"strings"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/e2e/sink"
)

// TestSecretsOfWebhooks asks as a viewer, with a token and a key, on every route that reads webhooks, for the secrets
// of their senders and destinations. Another organization sees nothing.
func TestSecretsOfWebhooks(t *testing.T) {
	t.Parallel()
	for _, database := range process.Databases {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			testSecretsOfWebhooks(t, installation.StartWithOwner(t, database))
		})
	}
}

func testSecretsOfWebhooks(t *testing.T, s *installation.Steward) {
	b, userID := s.Invite("grace@example.com", "member")
	scopes := []string{"openid", "apikey:write", "webhook:read", "webhook:write"}
	token, _ := s.NewRelyingParty(s.NewApplication(object{"scopes": scopes}), scopes...).SignIn(b)
	byToken := s.As(token.AccessToken)
	byKey := s.As(byToken.Call("POST", "/cli/apikey", object{"name": "k"}).Want(201).Text("value"))

	k, h := sink.New(t), s.NewHook("payments")
	settings := object{
		"verification": object{
			"type": "header", "header": "x-shop-secret", "secrets": []string{"hidden-one", "hidden-two"},
			"challenge": "meta", "challenge_token": "hidden-token",
		},
		"dedupe": object{"by": "header", "header": "x-api-key"},
	}
	s.Call("PUT", "/webhook/update/"+h.ID, settings).Want(200)
	destination, first := s.NewDestination(h, k.URL+"/hook", "headers", object{"Authorization": "hidden-header"},
		"filter", object{"body": object{"n": 1}}, "retry", object{"type": "linear", "delay_seconds": 5})
	rotate := "/webhook/destination-rotate-secret/" + h.ID + "/" + destination
	second := s.Call("POST", rotate, nil, "Idempotency-Key", "once").Want(200).Text("secret")
	if first == second {
		t.Fatal("the secret is the same after a rotation")
	}
	receipt := s.Ingest(h, `{"n": 1}`, "X-Shop-Secret", "hidden-one", "X-Api-Key", "hidden-key")
	k.Wait("/hook", 1)
	for _, headers := range [][]string{{"X-Shop-Secret", "hidden-on"}, {"Authorization", "Bearer hidden-one"}} {
		r, err := s.Send("POST", h.Path, strings.NewReader(`{"n": 1}`), headers...)
		s.Must(err)
		r.Want(401)
	}
	r, err := s.Send("GET", h.Path+"?hub.mode=subscribe&hub.challenge=x&hub.verify_token=hidden-toke", nil)
	s.Must(err)
	r.Want(401)
	hidden := func(text []byte) bool {
		return strings.Contains(string(text), "hidden") ||
			strings.Contains(string(text), first) || strings.Contains(string(text), second)
	}

	follow := "?since=2026-01-01T00:00:00Z&follow=false"
	all := map[string]any{ // bodies by route; nil where there is none
		"GET /webhook/list": nil, "GET /webhook/tail" + follow: nil, "GET /webhook/analytics/org": nil,
	}
	one := map[string]any{
		"GET /webhook/get/" + h.ID: nil, "GET /webhook/destination-list/" + h.ID: nil, "GET /webhook/rejected-list/" + h.ID: nil,
		"GET /webhook/receipt-list/" + h.ID: nil, "GET /webhook/receipt-get/" + h.ID + "/" + receipt: nil,
		"GET /webhook/delivery-list/" + h.ID: nil, "GET /webhook/tail/" + h.ID + follow: nil, "GET /webhook/replay/" + h.ID: nil,
	}
	writes := map[string]any{
		"PUT /webhook/update/" + h.ID: settings, "POST " + rotate: nil,
		"POST /webhook/filter-test/" + h.ID:                             object{"filter": object{"headers": object{"x-shop-secret": object{"$startsWith": "hidden"}}}},
		"PUT /webhook/destination-update/" + h.ID + "/" + destination:   object{"config": object{"url": k.URL, "filter": nil, "paused": true}},
		"POST /webhook/destination-recover/" + h.ID + "/" + destination: nil,
	}
	call := func(caller *installation.Steward, route string, body any, headers ...string) *installation.Response {
		method, path, _ := strings.Cut(route, " ")
		return caller.Call(method, path, body, headers...)
	}
	s.Call("PUT", "/oidc/org/members/"+userID, object{"role": "viewer"}).Want(200)
	for _, viewer := range []*installation.Steward{byToken, byKey} {
		for _, face := range []string{"", "/sdk"} {
			for _, routes := range []map[string]any{all, one} {
				for route, body := range routes {
					got := call(viewer, strings.Replace(route, " ", " "+face, 1), body).Want(200)
					if hidden(got.Body) {
						t.Errorf("%s: a viewer gets %s", route, got.Body)
					}
				}
			}
		}
		for route, body := range writes {
			if got := call(viewer, route, body, "Idempotency-Key", "once").Want(403); hidden(got.Body) {
				t.Errorf("%s: a viewer gets %s", route, got.Body)
			}
		}
		if got := viewer.Call("GET", "/search?q=hidden", nil); hidden(got.Body) {
			t.Errorf("a search as a viewer finds %s", got.Body)
		}
	}

	other := s.SecondOrganization()
	maps.Copy(one, writes)
	for route, body := range one {
		call(other, route, body).Want(404)
	}
	for route := range all {
		if got := call(other, route, nil).Want(200); hidden(got.Body) || strings.Contains(string(got.Body), receipt) || strings.Contains(string(got.Body), h.ID) {
			t.Errorf("%s: another organization gets %s", route, got.Body)
		}
	}
	totals := other.WebhookTotals("webhookId=" + h.ID)
	if totals != (installation.WebhookTotals{}) {
		t.Errorf("another organization counts %+v", totals)
	}
}

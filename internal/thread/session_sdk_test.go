package thread

import (
	"encoding/json"
	"strings"
	"testing"

	"steward/internal/eval"
)

// TestSessionForSDKs checks the parts of a session that SDKs cannot read in every form. The SDKs
// themselves read the whole in package e2e.
func TestSessionForSDKs(t *testing.T) {
	d := SessionDetail{
		Session: Session{ID: "s", URL: "/a?b=1", Method: "GET", RouteID: "r", AgentIDs: []string{"a"}, StatusCode: new(200)},
		runs: []eval.Run{
			{ID: "object", Result: json.RawMessage(`{"score":1}`)},
			{ID: "list", Result: json.RawMessage(`[1]`)},
			{ID: "none"},
		},
	}
	text, err := json.Marshal(d.SDK())
	must(t, err)
	for _, want := range []string{
		`"agents":[{"name":"a","identifier":"a"}]`, `"route":{"id":"r","method":"GET","path":"/a"}`,
		`"url":"http://localhost/a?b=1"`, `"deployment_id":""`, `"project_id":""`, `"duration":null`, `"success":true`,
		`"eval_id":"","pending":false,"success":false,"error":null,"result":{"score":1}}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if strings.Count(string(text), `"result":null`) != 2 {
		t.Errorf("results that are no objects: %s", text)
	}
	text, err = json.Marshal(SessionDetail{}.SDK())
	must(t, err)
	if want := `"agents":[],"eval_runs":[],"route":null}`; !strings.HasSuffix(string(text), want) || !strings.Contains(string(text), `"agent_ids":[]`) {
		t.Errorf("an empty session: %s", text)
	}
}

func TestSessionSucceedsWithoutError(t *testing.T) {
	for want, sessions := range map[bool][]Session{
		true:  {{StatusCode: new(200)}, {StatusCode: new(404)}},
		false: {{Pending: true}, {StatusCode: new(500)}, {StatusCode: new(200), Error: text("no")}},
	} {
		for _, s := range sessions {
			if s.forSDK().Success != want {
				t.Errorf("%+v: want %v", s, want)
			}
		}
	}
}

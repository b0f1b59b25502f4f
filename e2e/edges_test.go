package e2e

import (
	"context"
	"encoding/json"
	"html"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// faults returns the locations of the faults in an error, sorted.
func (r *response) faults() string {
	r.t.Helper()
	var problem struct{ Errors []struct{ Location string } }
	r.decode(&problem)
	var locations []string
	for _, f := range problem.Errors {
		locations = append(locations, f.Location)
	}
	slices.Sort(locations)
	return strings.Join(locations, " ")
}

func TestBodiesAreReadExactlyAndFaultsComeTogether(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		if got := s.call("POST", "/webhook/create", `{"NAME":"x","description":1,"retention_seconds":5}`).want(422).faults(); got !=
			"body.description body.name body.retention_seconds" {
			t.Errorf("faults at %s", got)
		}
		hook := s.call("POST", "/webhook/create", `{"name":"a","Name":"b","name":"c","NAME":"d"}`).want(201)
		if hook.text("name") != "c" {
			t.Errorf("the last of equal names does not win: %s", hook.body)
		}
		config := `{"url":"https://a.example/","URL":1,"Headers":{"x":1}}`
		destination := s.call("POST", "/webhook/destination-create/"+hook.text("id"), `{"type":"url","config":`+config+`}`).want(201)
		var echoed struct{ Config json.RawMessage }
		if destination.decode(&echoed); string(echoed.Config) != config {
			t.Errorf("the free-form config became %s", echoed.Config)
		}
		bad := `{"create":[` + strings.TrimSuffix(strings.Repeat(`{},`, 1<<20/3-20), ",") + `]}`
		for _, prefix := range []string{"", "/sdk"} {
			got := s.call("POST", prefix+"/cli/devmode/eval", bad).want(422)
			if len(got.body) > 1000 || !strings.Contains(string(got.body), "expected at most 1000 items") {
				t.Errorf("%d bytes: %.500s", len(got.body), got.body)
			}
		}
		many := s.call("POST", "/cli/devmode/eval", `{"create":[`+strings.TrimSuffix(strings.Repeat(`{},`, 1000), ",")+`]}`).want(422)
		if many.get("errors_omitted") != 3900.0 || len(many.get("errors").([]any)) != 100 {
			t.Errorf("%v omitted: %.500s", many.get("errors_omitted"), many.body)
		}
	})
}

func TestMisspeltParametersAndUncleanPaths(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		for path, want := range map[string]struct {
			status int
			faults string
		}{
			"/thread?projectid=x&limti=1": {422, "query.limti query.projectid"},
			"/thread?utm_source=x":        {200, ""},
			"/sdk/thread?limti=1":         {200, ""},
			"//thread":                    {404, ""},
			"/./thread":                   {404, ""},
			"/thread/../thread":           {404, ""},
			"/sdk":                        {404, ""},
			"/thread/":                    {404, ""},
			"/thread?projectId=%zz":       {400, ""},
			"/thread/" + longID():         {404, ""},
		} {
			got := s.call("GET", path, nil)
			if got.status != want.status || got.status == 422 && got.faults() != want.faults || !json.Valid(got.body) || len(got.body) > 1000 {
				t.Errorf("%.80s: %d %s", path, got.status, got.body)
			}
		}
	})
}

func longID() string { return strings.Repeat("x", 4000) }

// TestDocumentedSocketProtocol plays the dialogue in the documentation.
func TestDocumentedSocketProtocol(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		page := html.UnescapeString(string(s.call("GET", "/docs", nil).want(200).body))
		_, dialogue, _ := strings.Cut(page, "→ ")
		dialogue, _, _ = strings.Cut(dialogue, "</pre>")
		a := s.connect("/thread/ws")
		requests := strings.Split(strings.ReplaceAll(dialogue, "sk_…", s.key), "→ ")
		for _, exchange := range requests {
			sent, want, _ := strings.Cut(exchange, "← ")
			s.must(a.conn.Write(context.Background(), websocket.MessageText, []byte(sent)))
			got := <-a.frames
			s.must(got.err)
			if strings.Join(strings.Fields(want), "") != string(got.text) {
				t.Errorf("%s was answered with %s, want %s", sent, got.text, want)
			}
		}
		if len(requests) != 5 {
			t.Errorf("%d exchanges, want 5", len(requests))
		}
	})
}

package e2e

import (
	"context"
	"encoding/json"
	"html"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"steward/e2e/installation"
)

// faultLocations returns the locations of the faults in an error, sorted.
func faultLocations(r *installation.Response) string {
	r.T.Helper()
	var problem struct{ Errors []struct{ Location string } }
	r.Decode(&problem)
	var locations []string
	for _, f := range problem.Errors {
		locations = append(locations, f.Location)
	}
	slices.Sort(locations)
	return strings.Join(locations, " ")
}

func TestBodiesAreReadExactlyAndFaultsComeTogether(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	if got := faultLocations(s.Call("POST", "/webhook/create", `{"NAME":"x","description":1,"retention_seconds":5}`).Want(422)); got !=
		"body.description body.name body.retention_seconds" {
		t.Errorf("faults at %s", got)
	}
	hook := s.Call("POST", "/webhook/create", `{"name":"a","Name":"b","name":"c","NAME":"d"}`).Want(201)
	if hook.Text("name") != "c" {
		t.Errorf("the last of equal names does not win: %s", hook.Body)
	}
	config := `{"url":"https://a.example/","URL":1,"Headers":{"x":1}}`
	destination := s.Call("POST", "/webhook/destination-create/"+hook.Text("id"), `{"type":"url","config":`+config+`}`).Want(201)
	var echoed struct{ Config json.RawMessage }
	if destination.Decode(&echoed); string(echoed.Config) != config {
		t.Errorf("the free-form config became %s", echoed.Config)
	}
	bad := `{"create":[` + strings.TrimSuffix(strings.Repeat(`{},`, 1<<20/3-20), ",") + `]}`
	for _, prefix := range []string{"", "/sdk"} {
		got := s.Call("POST", prefix+"/cli/devmode/eval", bad).Want(422)
		if len(got.Body) > 1000 || !strings.Contains(string(got.Body), "expected at most 1000 items") {
			t.Errorf("%d bytes: %.500s", len(got.Body), got.Body)
		}
	}
	many := s.Call("POST", "/cli/devmode/eval", `{"create":[`+strings.TrimSuffix(strings.Repeat(`{},`, 1000), ",")+`]}`).Want(422)
	if many.Get("errors_omitted") != 3900.0 || len(many.Get("errors").([]any)) != 100 {
		t.Errorf("%v omitted: %.500s", many.Get("errors_omitted"), many.Body)
	}
}

func TestMisspeltParametersAndUncleanPaths(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
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
		got := s.Call("GET", path, nil)
		if got.Status != want.status || got.Status == 422 && faultLocations(got) != want.faults || !json.Valid(got.Body) || len(got.Body) > 1000 {
			t.Errorf("%.80s: %d %s", path, got.Status, got.Body)
		}
	}
}

func longID() string { return strings.Repeat("x", 4000) }

// TestDocumentedSocketProtocol plays the dialogue in the documentation.
func TestDocumentedSocketProtocol(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	page := html.UnescapeString(string(s.Call("GET", "/docs", nil).Want(200).Body))
	_, dialogue, _ := strings.Cut(page, "→ ")
	dialogue, _, _ = strings.Cut(dialogue, "</pre>")
	a := s.ConnectSocket("/thread/ws")
	requests := strings.Split(strings.ReplaceAll(dialogue, "sk_…", s.Key), "→ ")
	for _, exchange := range requests {
		sent, want, _ := strings.Cut(exchange, "← ")
		s.Must(a.Conn.Write(context.Background(), websocket.MessageText, []byte(sent)))
		got := <-a.Frames
		s.Must(got.Err)
		if strings.Join(strings.Fields(want), "") != string(got.Text) {
			t.Errorf("%s was answered with %s, want %s", sent, got.Text, want)
		}
	}
	if len(requests) != 5 {
		t.Errorf("%d exchanges, want 5", len(requests))
	}
}

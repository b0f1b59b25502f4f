package webhooks

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"steward/internal/cli/noun"
	"steward/internal/cli/session"
)

func TestTablesAreComplete(t *testing.T) {
	for _, n := range []noun.Noun{webhookNoun(), replayNoun()} {
		if err := n.Check(); err != nil {
			t.Error(err)
		}
	}
}

func TestRecoverSaysHowManyDeliveriesAreSent(t *testing.T) {
	var request string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		request = r.Method + " " + r.URL.Path + " " + string(bytes.TrimSpace(body))
		_, _ = io.WriteString(w, `{"recovered":1257}`)
	}))
	defer server.Close()
	out := run(t, server.URL, "webhook", "destination", "recover", "wh_1", "whds_2", "--rate", "50")
	if want := `POST /webhook/destination-recover/wh_1/whds_2 {"rate":50}`; request != want {
		t.Errorf("sent %s, want %s", request, want)
	}
	if want := "Sending 1,257 deliveries that waited for a retry.\n"; out != want {
		t.Errorf("printed %q, want %q", out, want)
	}
}

// run returns what a command prints.
func run(t *testing.T, url string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	e := &session.Env{Program: session.Program{
		Environ: []string{"STEWARD_URL=" + url, "STEWARD_KEY=sk_x", "XDG_CONFIG_HOME=" + t.TempDir()}, Out: &out, Err: io.Discard,
	}}
	root := &cobra.Command{Use: "steward"}
	root.AddCommand(Commands(e)...)
	root.SetArgs(args)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestListShowsWebhooksOfUsersBeforeAllOfTheSystem has a server whose newest webhooks are those of the
// system, more of them than the list shows.
func TestListShowsWebhooksOfUsersBeforeAllOfTheSystem(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own := `{"id":"wh_1","name":"orders","internal":false}`
		system := `{"id":"wh_3","name":"photos","internal":true},{"id":"wh_2","name":"invoices","internal":true}`
		pages := map[string]string{"": system + "," + own, "true": system, "false": own}
		_, _ = io.WriteString(w, "["+pages[r.URL.Query().Get("internal")]+"]")
	}))
	defer server.Close()
	names := regexp.MustCompile(`orders|System webhooks|photos|invoices`)
	got := names.FindAllString(run(t, server.URL, "webhook", "list", "--limit", "2"), -1)
	if want := []string{"orders", "System webhooks", "photos"}; !slices.Equal(got, want) {
		t.Errorf("printed %v, want %v", got, want)
	}
}

func TestDeliveriesCanBeListedByFailing(t *testing.T) {
	var query string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.Query().Get("status")
		_, _ = io.WriteString(w, "[]")
	}))
	defer server.Close()
	run(t, server.URL, "webhook", "delivery", "list", "wh_1", "--status", "failing")
	if query != "failing" {
		t.Errorf("asked for %q", query)
	}
}

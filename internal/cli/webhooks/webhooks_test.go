package webhooks

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
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
	return runWith(t, url, "", args...)
}

// runWith is run with a standard input.
func runWith(t *testing.T, url, in string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	e := &session.Env{Program: session.Program{
		Environ: []string{"STEWARD_URL=" + url, "STEWARD_KEY=sk_x", "XDG_CONFIG_HOME=" + t.TempDir()},
		In:      strings.NewReader(in), Out: &out, Err: io.Discard,
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

func TestVerificationSecretsAreReadFromStandardInput(t *testing.T) {
	var sent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		sent = string(bytes.TrimSpace(body))
		_, _ = io.WriteString(w, `{"id":"wh_1"}`)
	}))
	defer server.Close()
	for _, c := range []struct {
		in   string
		args []string
		want string
	}{
		{
			"one",
			[]string{"create", "pay", "--verify", `{"type": "stripe"}`, "--verify-secret", "-"},
			`{"name":"pay","verification":{"secrets":["one"],"type":"stripe"}}`,
		},
		{
			"new\n***\n",
			[]string{"update", "wh_1", "--verify", `{"type": "stripe"}`, "--verify-secret", "-"},
			`{"verification":{"secrets":["new","***"],"type":"stripe"}}`,
		},
		{"", []string{"update", "wh_1", "--verify", "null"}, `{"verification":null}`},
	} {
		runWith(t, server.URL, c.in, append([]string{"webhook"}, c.args...)...)
		if sent != c.want {
			t.Errorf("%v sent %s, want %s", c.args, sent, c.want)
		}
	}
}

// TestFilterIsReplacedAsAWhole: other objects in the config of a destination are merged.
func TestFilterIsReplacedAsAWhole(t *testing.T) {
	var sent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `[{"id":"whds_1","config":{"url":"http://a.test","headers":{"a":"b"},"filter":{"body":{"a":1}}}}]`)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		sent = string(bytes.TrimSpace(body))
		_, _ = io.WriteString(w, `{"id":"whds_1"}`)
	}))
	defer server.Close()
	for filter, want := range map[string]string{
		`{"method":"POST"}`: `{"config":{"filter":{"method":"POST"},"headers":{"a":"b"},"url":"http://a.test"}}`,
		`null`:              `{"config":{"filter":null,"headers":{"a":"b"},"url":"http://a.test"}}`,
	} {
		run(t, server.URL, "webhook", "destination", "update", "wh_1", "whds_1", "--filter", filter)
		if sent != want {
			t.Errorf("sent %s, want %s", sent, want)
		}
	}
	run(t, server.URL, "webhook", "destination", "update", "wh_1", "whds_1", "--timeout", "5s")
	if want := `{"config":{"filter":{"body":{"a":1}},"headers":{"a":"b"},"timeout_seconds":5,"url":"http://a.test"}}`; sent != want {
		t.Errorf("sent %s, want %s", sent, want)
	}
}

func TestFilterTestPrintsMatches(t *testing.T) {
	var sent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		sent = r.URL.Path + " " + string(bytes.TrimSpace(body))
		_, _ = io.WriteString(w, `[{"receipt_id":"whrc_2","matches":true},{"receipt_id":"whrc_1","matches":false}]`)
	}))
	defer server.Close()
	out := run(t, server.URL, "webhook", "filter-test", "wh_1", `{"method":"POST"}`)
	if want := "whrc_2 matches\n1 of the last 2 receipts match.\n"; out != want {
		t.Errorf("printed %q, want %q", out, want)
	}
	if want := `/webhook/filter-test/wh_1 {"filter":{"method":"POST"}}`; sent != want {
		t.Errorf("sent %s, want %s", sent, want)
	}
}

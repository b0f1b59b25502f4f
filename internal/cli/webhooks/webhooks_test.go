package webhooks

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
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
	var out bytes.Buffer
	e := &session.Env{Program: session.Program{
		Environ: []string{"STEWARD_URL=" + server.URL, "STEWARD_KEY=sk_x", "XDG_CONFIG_HOME=" + t.TempDir()}, Out: &out, Err: io.Discard,
	}}
	root := &cobra.Command{Use: "steward"}
	root.AddCommand(Commands(e)...)
	root.SetArgs([]string{"webhook", "destination", "recover", "wh_1", "whds_2", "--rate", "50"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := `POST /webhook/destination-recover/wh_1/whds_2 {"rate":50}`; request != want {
		t.Errorf("sent %s, want %s", request, want)
	}
	if want := "Sending 1,257 deliveries that waited for a retry.\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

package migrate

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"steward/internal/errs"
	"steward/internal/web/pipetest"
)

// TestCommandThatReadsNothingDelaysNoMove reports events to a client that never reads.
func TestCommandThatReadsNothingDelaysNoMove(t *testing.T) {
	listener := make(pipetest.Listener, 1)
	client, err := listener.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	reported := make(chan struct{})
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r := &reporter{control: http.NewResponseController(w), encoder: json.NewEncoder(w), timeout: time.Millisecond}
		for range 10_000 {
			r.report(Event{Stage: "copy"})
		}
		close(reported)
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	if _, err := io.WriteString(client, "POST / HTTP/1.1\r\nHost: steward\r\nContent-Length: 0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-reported
	close(listener)
	_ = client.Close()
	_ = srv.Close()
	<-served
}

func TestErrorOfTheServerKeepsItsKind(t *testing.T) {
	for line, want := range map[string]errs.Kind{
		`{"error": "e", "code": "conflict"}`: errs.Conflict,
		`{"error": "e"}`:                     errs.Internal,
		`{"stage": "copy"}`:                  errs.Internal,
	} {
		if _, err := follow(strings.NewReader(line), func(Event) {}); err == nil || errs.KindOf(err) != want {
			t.Errorf("%s: %v", line, err)
		}
	}
}

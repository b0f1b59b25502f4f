package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"steward/client"
	"steward/internal/web/pipetest"
)

// stream answers with server-sent events and ends the response.
func stream(text string) answer {
	return status(200, text, "Content-Type", "text/event-stream")
}

func receipt(n int) string {
	return fmt.Sprintf("id: p%d\nevent: receipt\ndata: {\"id\":\"whrc_%d\",\"payload\":{\"n\":%d}}\n\n", n, n, n)
}

func TestTailHasReceiptsAndDeliveries(t *testing.T) {
	text := ": hello\nid: p0\n\n" + receipt(1) + ":\n\n" +
		"id: p2\r\nevent: delivery\r\ndata: {\"id\":\"whdv_1\",\r\ndata:  \"status\":\"failed\"}\r\n\r\n" +
		"event: gap\ndata: {\"since\":\"2026-11-15T08:30:00Z\"}\n\n" +
		"id: p3\nevent: later\ndata: {}\n\nid: p4\n\nid: p5\nevent: receipt\ndata: {}\n" // the last is not complete
	s, c := serve(t, stream(text))
	var events []client.Event
	var positions []string
	params := client.TailParams{
		WebhookID: "wh_1", NoFollow: true, Since: time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC),
		Position: func(id string) { positions = append(positions, id) },
	}
	for event, err := range c.Tail(t.Context(), params) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, event)
	}
	if len(events) != 4 || events[0].Receipt.ID != "whrc_1" || string(events[0].Receipt.Payload) != `{"n":1}` ||
		events[1].Delivery.Status != client.DeliveryStatusFailed || events[1].ID != "p2" ||
		!events[2].Gap.Since.Equal(params.Since) || events[3].Type != "later" {
		t.Errorf("%+v", events)
	}
	if want := []string{"p0", "p1", "p2", "p3", "p4"}; !slices.Equal(positions, want) {
		t.Errorf("positions %v, want %v", positions, want)
	}
	r := s.all()[0]
	if r.path != "/webhook/tail/wh_1?follow=false&since=2026-11-15T08%3A30%3A00Z" || r.header.Get("Accept") != "text/event-stream" {
		t.Errorf("%+v", r)
	}
}

// TestTailMissesAndRepeatsNothing cuts the connection at any byte, many times.
func TestTailMissesAndRepeatsNothing(t *testing.T) {
	const total = 300
	_, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		after, err := strconv.Atoi(strings.TrimPrefix(r.Header.Get("Last-Event-ID"), "p"))
		if err != nil {
			after = 0
		}
		text := fmt.Sprintf("retry: 1\nid: p%d\n\n", after)
		for n := after + 1; n <= total; n++ {
			text += receipt(n)
		}
		end := min(rand.N(4000), len(text))
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, text[:end])
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		panic(http.ErrAbortHandler)
	})
	reconnects := 0
	want := 0
	for event, err := range c.Tail(t.Context(), client.TailParams{Reconnecting: func(error, time.Duration) { reconnects++ }}) {
		if err != nil {
			t.Fatal(err)
		}
		want++
		if event.Receipt.ID != fmt.Sprint("whrc_", want) {
			t.Fatalf("event %d is %s", want, event.Receipt.ID)
		}
		if want == total {
			break
		}
	}
	if want != total || reconnects < 3 {
		t.Errorf("%d events, %d reconnects", want, reconnects)
	}
}

func TestTailGivesUpSilentConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := make(pipetest.Listener)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Last-Event-ID") == "p1" {
				stream(receipt(2))(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, receipt(1))
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			<-r.Context().Done()
		})}
		go func() { _ = server.Serve(listener) }()
		c := client.New("http://steward/", "sk_test")
		c.HTTP = &http.Client{Transport: &http.Transport{DialContext: listener.Dial, DisableKeepAlives: true}}
		var reasons []string
		var got []string
		params := client.TailParams{Reconnecting: func(err error, _ time.Duration) { reasons = append(reasons, err.Error()) }}
		for event, err := range c.Tail(t.Context(), params) {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, event.ID); len(got) == 2 {
				break
			}
		}
		if !slices.Equal(got, []string{"p1", "p2"}) || !slices.Equal(reasons, []string{"the server sends nothing"}) {
			t.Errorf("events %v, reasons %q", got, reasons)
		}
		close(listener)
		_ = server.Close()
	})
}

func TestTailEndsWithFinalErrors(t *testing.T) {
	for _, test := range []struct {
		answers []answer
		want    string
	}{
		{[]answer{status(503, "", "Retry-After", "0"), cut, status(404, "")}, "tail: not found (404)"},
		{[]answer{stream(receipt(1)), status(401, "")}, "tail: unauthorized (401)"}, // the key was revoked
		{[]answer{status(200, "<html>", "Content-Type", "text/html")}, `tail: the response is "text/html", not a stream of events`},
		{[]answer{stream("event: receipt\ndata: {\n\n")}, "tail: decode receipt: unexpected end of JSON input"},
		{[]answer{stream("data: " + strings.Repeat("x", 17<<20))}, "tail: an event is larger than 16777216 bytes"},
		{[]answer{status(503, "", "Retry-After", "0")}, "tail: service unavailable (503)"}, // never connected
	} {
		s, c := serve(t, test.answers...)
		c.MaxRetries = 2
		var last error
		for _, err := range c.Tail(t.Context(), client.TailParams{}) {
			last = err
		}
		if last == nil || last.Error() != test.want {
			t.Errorf("%v after %d requests, want %s", last, len(s.all()), test.want)
		}
	}
}

func TestTailEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var requests atomic.Int32
	_, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		stream(receipt(1))(w, r)
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	})
	var last error
	for _, err := range c.Tail(ctx, client.TailParams{}) {
		last = err
		cancel()
	}
	if !errors.Is(last, context.Canceled) || requests.Load() != 1 {
		t.Errorf("%v after %d requests", last, requests.Load())
	}
}

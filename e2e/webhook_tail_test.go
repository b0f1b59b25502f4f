package e2e

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/sink"
	"steward/internal/waittest"
)

func TestTailShowsReceiptsAndDeliveriesAsListsDo(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		k, h, other := sink.New(t), s.NewHook("orders"), s.NewHook("other")
		s.NewDestination(h, k.URL+"/hook")
		before := s.Ingest(other, "before")
		if shown := s.CaughtUp("/webhook/tail?follow=false&since=2026-01-01T00:00:00Z"); len(shown) != 1 {
			t.Errorf("%d events, want the one that was acknowledged", len(shown))
		}
		one := installation.Follow(t, "/webhook/tail/"+h.ID, "", 0, func() *installation.Steward { return s })
		all := installation.Follow(t, "/webhook/tail", "", 0, func() *installation.Steward { return s })
		receipts := []string{s.Ingest(h, `{"n": 1}`), s.Ingest(other, "text"), s.Ingest(h, strings.Repeat("x", 70_000))}
		one.Wait("delivery", 2)
		if got := all.Wait("receipt", 3); !slices.Equal(got, receipts) {
			t.Errorf("all: %v, want %v", got, receipts)
		}
		if got := one.Wait("receipt", 2); !slices.Equal(got, []string{receipts[0], receipts[2]}) {
			t.Errorf("one: %v, want those of one webhook of %v", got, receipts)
		}
		for kind, path := range map[string]string{"receipt": "/webhook/receipt-list/", "delivery": "/webhook/delivery-list/"} {
			var listed []map[string]any
			s.Call("GET", path+h.ID, nil).Want(200).Decode(&listed)
			for _, l := range listed { // lists also tell the latest state
				delete(l, "deliveries")
				delete(l, "receipt")
			}
			for i, id := range one.Seen(kind) {
				got := one.Events[slices.IndexFunc(one.Events, func(e installation.TailEvent) bool { return e.Key() == id })].Data
				var shown map[string]any
				s.Must(json.Unmarshal(got, &shown))
				if !slices.ContainsFunc(listed, func(l map[string]any) bool { return reflect.DeepEqual(l, shown) }) {
					t.Errorf("%s %d is %.200s, the list has %.300v", kind, i, got, listed)
				}
			}
		}
		since := s.CaughtUp("/webhook/tail?follow=false&since=2026-01-01T00:00:00Z")
		if len(since) != 6 || since[0].Key() != before {
			t.Errorf("%d events since the beginning, want 4 receipts and 2 deliveries", len(since))
		}
		rest := s.CaughtUp("/webhook/tail?follow=false", "Last-Event-ID", since[2].ID)
		if len(rest) != 3 || rest[0].ID != since[3].ID {
			t.Errorf("%d events after the third", len(rest))
		}
		s.Call("GET", "/webhook/tail?since=yesterday", nil).Want(422)
		s.Call("GET", "/webhook/tail", nil, "Last-Event-ID", "x").Want(422)
		s.Call("GET", "/webhook/tail/wh_none", nil).Want(404)
	})
}

// TestTailEndsWithItsRight checks that a tail does not outlive its key or its webhook, and that it
// does not keep the process from stopping.
func TestTailEndsWithItsRight(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	h := s.NewHook("orders")
	made := s.Call("POST", "/cli/apikey", object{"name": "tail"}).Want(201)
	other := s.As(made.Text("value"))
	ended := make(chan struct{})
	open := func(path string) {
		req, err := http.NewRequest("GET", s.URL+path, nil)
		s.Must(err)
		req.Header.Set("Authorization", "Bearer "+other.Key)
		res, err := installation.Client.Do(req)
		s.Must(err)
		go func() {
			defer res.Body.Close()
			_ = installation.ReadEvents(res.Body, func(installation.TailEvent) bool { return true })
			ended <- struct{}{}
		}()
	}
	open("/webhook/tail")
	s.Call("DELETE", "/cli/apikey/"+made.Text("id"), nil).Want(204)
	waittest.Receive(t, "the end of the tail of a deleted key", ended)
	other = s
	open("/webhook/tail/" + h.ID)
	s.Stop()
	waittest.Receive(t, "the end of the tail of a stopped process", ended)
	s.Start()
}

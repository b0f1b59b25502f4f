package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	api "steward/client"
	"steward/e2e/installation"
	"steward/e2e/sink"
)

// cuttingClient returns a client that reaches the installation through a proxy that cuts every response
// after a number of bytes.
func cuttingClient(s *installation.Steward, bytes int64) *api.Client {
	s.T.Helper()
	target, err := url.Parse(s.URL)
	s.Must(err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := r.Clone(r.Context())
		out.RequestURI = ""
		out.URL.Scheme = target.Scheme
		out.URL.Host = target.Host
		res, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer res.Body.Close()
		w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
		w.WriteHeader(res.StatusCode)
		part := io.LimitReader(res.Body, bytes)
		buffer := make([]byte, 512)
		for {
			n, err := part.Read(buffer)
			w.Write(buffer[:n])
			_ = http.NewResponseController(w).Flush()
			if err != nil {
				panic(http.ErrAbortHandler)
			}
		}
	}))
	s.T.Cleanup(server.Close)
	s.T.Cleanup(server.CloseClientConnections)
	return api.New(server.URL, s.Key)
}

// TestClientTailMissesNothing tails over connections that are cut in the middle of events.
func TestClientTailMissesNothing(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	k := sink.New(t)
	webhook := ok(newAPIClient(s).CreateWebhook(ctx, api.NewWebhook{Name: "orders"}))(t)
	ok(newAPIClient(s).CreateDestination(ctx, webhook.ID, api.NewDestination{Type: "url", Config: api.DestinationConfig{URL: k.URL}}))(t)
	h := installation.Hook{ID: webhook.ID, Path: strings.TrimPrefix(*webhook.URL, s.URL)}
	const total = 60
	sent := make(chan []string, 1)
	positioned := make(chan struct{}, 1000)
	go func() {
		<-positioned // the tail has a position
		var ids []string
		for i := range total {
			ids = append(ids, s.Ingest(h, fmt.Sprintf(`{"n":%d}`, i)))
		}
		sent <- ids
	}()
	var receipts, deliveries []string
	reconnects := 0
	params := api.TailParams{
		WebhookID: webhook.ID,
		Position: func(string) {
			select {
			case positioned <- struct{}{}:
			default:
			}
		},
		Reconnecting: func(error, time.Duration) { reconnects++ },
	}
	for event, err := range cuttingClient(s, 3000).Tail(ctx, params) {
		if err != nil {
			t.Fatal(err)
		}
		switch event.Type {
		case api.EventReceipt:
			receipts = append(receipts, event.Receipt.ID)
		case api.EventDelivery:
			deliveries = append(deliveries, event.Delivery.WebhookReceiptID)
		}
		if len(receipts) >= total && len(deliveries) >= total {
			break
		}
	}
	want := <-sent
	slices.Sort(deliveries)
	if !slices.Equal(receipts, want) || !slices.Equal(slices.Compact(deliveries), slices.Sorted(slices.Values(want))) || reconnects == 0 {
		t.Errorf("%d receipts, %d deliveries, %d reconnects", len(receipts), len(deliveries), reconnects)
	}
	var again []string
	for event, err := range newAPIClient(s).Tail(ctx, api.TailParams{WebhookID: webhook.ID, Since: time.Now().Add(-time.Hour), NoFollow: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Type == api.EventReceipt {
			again = append(again, event.Receipt.ID)
		}
	}
	if !slices.Equal(again, want) {
		t.Errorf("%d receipts since an hour ago, want %d", len(again), len(want))
	}
	for _, err := range newAPIClient(s).Tail(ctx, api.TailParams{WebhookID: "wh_none"}) {
		if !api.IsNotFound(err) || errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

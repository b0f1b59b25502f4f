package app

import (
	"net/netip"
	"testing"

	"steward/internal/web"
)

func TestWebhooksReachLoopbackOnlyIfTheAPIListensThere(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer target.Close()
	to := &webhook.Destination{}
	if err := json.Unmarshal([]byte(`{"url": "`+target.URL+`"}`), &to.Config); err != nil {
		t.Fatal(err)
	}
	d := dbtest.Open(t, db.SQLite)
	for address, allowed := range map[string]bool{
		"127.0.0.1:1": true, "127.8.9.10:1": true, "localhost:1": true, "[::1]:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "192.0.2.1:1": false, "steward.example:1": false, "": false,
	} {
		sender := wireHooks(Config{Listen: address}, &database{db: d}, nil, nil, time.Now).worker.Sender
		out := sender.Send(t.Context(), webhook.Attempt{
			Destination: to, Signer: webhook.NewSigner(nil),
			Receipt: &webhook.Receipt{Method: "POST"}, Delivery: &webhook.Delivery{},
		})
		if (out.Error == "") != allowed {
			t.Errorf("listening on %q: %q", address, out.Error)
		}
	}
}

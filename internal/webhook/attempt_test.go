package webhook

import (
	"context"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/webhook/queue"
	"steward/internal/webhook/send"
)

// TestCutOffAttemptIsNotRecorded stops the process while an attempt goes on: that is not the
// destination's failure.
func TestCutOffAttemptIsNotRecorded(t *testing.T) {
	h := newFixture(t, dbtest.Open(t, db.SQLite))
	w, _ := h.webhook(alice)
	to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
	h.accept(w, alice, "x")
	rows, _ := h.store.claim(t, to.ID, 1)
	ctx, cut := context.WithCancel(t.Context())
	h.sender.Network = networkFunc(func(context.Context, send.Request) send.Result {
		cut()
		return send.Result{Error: "cut off"}
	})
	attempt := &queue.Task{Row: rows[0], Request: &queue.Request{Method: "POST", Headers: "{}", Body: []byte("x")}}
	if result, err := h.sender.Attempt(ctx, attempt); err == nil {
		t.Errorf("it ended with %+v", result)
	}
}

// networkFunc is a network of one function.
type networkFunc func(context.Context, send.Request) send.Result

func (f networkFunc) Send(ctx context.Context, r send.Request) send.Result { return f(ctx, r) }

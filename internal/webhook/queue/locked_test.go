package queue_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/webhook"
	"steward/internal/webhook/send"
)

// TestLockedRowDelaysNoOtherDestination has a transaction that never ends, such as that of a frozen
// replica, hold a row of alice's destination. Bob's deliveries go on, and hers once the row is free.
func TestLockedRowDelaysNoOtherDestination(t *testing.T) {
	for name, lock := range map[string]string{
		"lease":          `UPDATE webhook_leases SET owner = 'rep_frozen' WHERE destination_id = $1`,
		"new lease":      `INSERT INTO webhook_leases (destination_id, owner, expires_at) VALUES ($1, 'rep_frozen', 0)`,
		"deleted lease":  `DELETE FROM webhook_leases WHERE destination_id = $1`,
		"delivery":       `UPDATE webhook_deliveries SET status = 'success' WHERE destination_id = $1`,
		"queue":          `DELETE FROM webhook_queue WHERE destination_id = $1`,
		"health":         `UPDATE webhook_destinations SET failing_count = 0 WHERE id = $1`,
		"lease renewed":  `SELECT FROM webhook_leases WHERE destination_id = $1 FOR UPDATE`,
		"whole delivery": `SELECT FROM webhook_deliveries WHERE destination_id = $1 FOR UPDATE`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it waits for the lock
			options := dbtest.Options(t, db.Postgres)
			d, err := db.Open(t.Context(), options)
			must(t, err)
			t.Cleanup(func() { must(t, d.Close()) })
			h := newFixture(t, d)
			n := &network{respond: func(_ context.Context, r send.Request) send.Result {
				if r.URL == "http://alice.test" {
					return send.Result{Error: "no"}
				}
				return ok()
			}}
			h.sender.Network = n
			hers := h.webhook(alice)
			to := h.destination(alice, hers.ID, `{"url": "http://alice.test", "max_retries": 0}`)
			h.accept(hers, alice, "x")
			his := h.webhook(bob)
			h.destination(bob, his.ID, `{"url": "http://bob.test"}`)

			frozen, err := pgx.Connect(t.Context(), options.URL)
			must(t, err)
			defer func() { _ = frozen.Close(context.Background()) }()
			if name == "new lease" {
				_, err = frozen.Exec(t.Context(), `DELETE FROM webhook_leases WHERE destination_id = $1`, to.ID)
				must(t, err)
			}
			_, err = frozen.Exec(t.Context(), "BEGIN")
			must(t, err)
			_, err = frozen.Exec(t.Context(), lock, to.ID)
			must(t, err)
			h.run()
			for i, body := range numbered(20) {
				h.accept(his, bob, body)
				h.waitFor(bob, his, webhook.Success, i+1)
			}
			_, err = frozen.Exec(t.Context(), "ROLLBACK")
			must(t, err)
			h.waitFor(alice, hers, webhook.Failed, 1)
			if sent := len(n.bodies("http://alice.test")); sent != 1 {
				t.Errorf("alice's delivery was sent %d times", sent)
			}
			h.sumsHold("org_a")
			h.sumsHold("org_b")
		})
	}
}

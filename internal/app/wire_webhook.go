package app

import (
	"net/http"
	"net/netip"

	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/budget"
	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/webhook"
	"steward/internal/webhook/queue"
	"steward/internal/webhook/replay"
	"steward/internal/webhook/send"
	"steward/internal/webhook/stats"
	"steward/internal/webhook/tail"
)

// webhooks holds the webhook slice's parts.
type webhooks struct {
	store        *webhook.Store
	ingest       *webhook.Ingest
	tails        *tail.Server
	sender       *webhook.Sender
	scheduler    *queue.Scheduler
	replayWorker *replay.Worker
	retention    *webhook.Retention
}

// wireWebhooks returns the webhook slice's parts. connectTails completes its live tails.
func (b base) wireWebhooks(auditLog *audit.Store) webhooks {
	store := &webhook.Store{
		DB: b.db, Ring: b.ring, Now: b.now, Log: b.log, Audit: auditLog,
		Queue: &queue.Store{DB: b.db, Now: b.now, Owner: id.New("rep")},
		Walks: budget.NewQueue(2), // one organization's use one at a time
	}
	sender := webhook.NewSender(store, send.New(egress(b.cfg, b.addresses), b.now))
	// Idle connections in package send may use another eighth of the process's file descriptors; the
	// other half is for incoming connections and files.
	scheduler := sender.Scheduler(int(descriptors()*3/8), b.poolSizes.deliveries)
	scheduler.Disk = b.databaseDisk
	scheduler.Exclusive = b.db.Dialect() == db.SQLite
	store.Queue.Wake = scheduler.Wake
	tails := tail.New(store, b.log, b.poolSizes.tails)
	store.Logged = tails.Wake
	replays := &replay.Store{DB: b.db, Now: b.now, Audit: auditLog, Hooks: store}
	store.Replayed = replays.Ended
	worker := replay.NewWorker(replays, b.log, store.Queue.Owner)
	worker.Disk = b.databaseDisk
	ingest := webhook.NewIngest(store, b.cfg.IngestLimit, b.poolSizes.ingest)
	ingest.Disk = b.databaseDisk
	return webhooks{
		store:        store,
		ingest:       ingest,
		tails:        tails,
		sender:       sender,
		scheduler:    scheduler,
		replayWorker: worker,
		retention:    &webhook.Retention{Store: store, Keep: b.cfg.WebhookRetention},
	}
}

// handler returns the routes' handler, which sends tests with the same client as deliveries.
func (w webhooks) handler(b base, authorize func(*http.Request) (*auth.Caller, error)) *webhook.Handler {
	return &webhook.Handler{
		Authorize: authorize,
		Store:     w.store, Stats: &stats.Store{DB: b.db, Now: b.now}, BaseURL: b.addresses.BaseURL, Network: w.sender.Network,
	}
}

// egress returns where deliveries may go: never to Steward's own listeners, and to loopback only
// while no other machine can reach the API.
func egress(cfg config.Config, own datadir.Addresses) send.Egress {
	e := send.Egress{Allow: cfg.EgressAllow, Loopback: cfg.OnlyLocal(own.BaseURL)}
	for _, address := range own.Listen {
		if parsed, err := netip.ParseAddrPort(address); err == nil {
			e.Own = append(e.Own, parsed)
		}
	}
	return e
}

package app

import (
	"iter"
	"log/slog"
	"maps"
	"net/netip"
	"time"

	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/webhook"
	"steward/internal/webhook/replay"
	"steward/internal/webhook/send"
	"steward/internal/webhook/stats"
	"steward/internal/webhook/tail"
)

// hooks holds the parts of the webhook slice that run in the background.
type hooks struct {
	store     *webhook.Store
	ingest    *webhook.Ingest
	tail      *tail.Server
	scheduler *webhook.Scheduler
	replays   *replay.Worker
	retention *webhook.Retention
}

func wireHooks(
	cfg config.Config, d *database, at datadir.Addresses, sizes memory, record func(*db.Tx, string, string) error,
	log *slog.Logger, now func() time.Time,
) hooks {
	store := &webhook.Store{
		DB: d.db, Ring: d.ring, Now: now, Log: log, Audit: record, Owner: id.New("rep"),
	}
	scheduler := webhook.NewScheduler(store, deliverySockets(), sizes.deliveries)
	scheduler.Send = send.New(egress(cfg, at), now).Send
	scheduler.Log = log
	scheduler.Disk = d.rows
	scheduler.Exclusive = d.db.Dialect() == db.SQLite
	store.Wake = scheduler.Wake
	tails := tail.New(store, log, sizes.tails)
	store.Logged = tails.Wake
	replays := &replay.Store{DB: d.db, Now: now, Audit: record, Hooks: store}
	store.Replayed = replays.Ended
	worker := replay.NewWorker(replays, log, store.Owner)
	worker.Disk = d.rows
	ingest := webhook.NewIngest(store, cfg.IngestLimit, sizes.ingest)
	ingest.Disk = d.rows
	return hooks{
		store:     store,
		ingest:    ingest,
		tail:      tails,
		scheduler: scheduler,
		replays:   worker,
		retention: &webhook.Retention{Store: store, Keep: cfg.WebhookRetention},
	}
}

// handler returns the handler of the routes, which sends tests with the client of deliveries.
func (h hooks) handler(d *database, baseURL string, now func() time.Time) *webhook.Handler {
	return &webhook.Handler{
		Store: h.store, Stats: &stats.Store{DB: d.db, Now: now}, BaseURL: baseURL, Send: h.scheduler.Send,
	}
}

// egress returns where deliveries may go: never to Steward's own listeners, and to loopback only
// while no other machine can reach the API.
func egress(cfg config.Config, at datadir.Addresses) send.Egress {
	return send.Egress{Allow: cfg.EgressAllow, Loopback: cfg.OnlyLocal(at.BaseURL), Own: addrPorts(maps.Values(at.Listen))}
}

// addrPorts parses the addresses of listeners.
func addrPorts(addresses iter.Seq[string]) []netip.AddrPort {
	var all []netip.AddrPort
	for address := range addresses {
		if parsed, err := netip.ParseAddrPort(address); err == nil {
			all = append(all, parsed)
		}
	}
	return all
}

// deliverySockets returns how many sockets deliveries may use at a time: three eighths of the file
// descriptors of the process. Idle connections of package send may use another eighth; the other
// half is for incoming connections and files.
func deliverySockets() int { return int(descriptors() * 3 / 8) }

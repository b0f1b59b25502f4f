package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/stamp"
	"steward/internal/webhook/queue"
	"steward/internal/webhook/send"
)

// Sender makes delivery attempts when the queue asks for them.
type Sender struct {
	Store *Store
	// Network makes the attempts.
	Network send.Sender
	// Begin, if not nil, is called before each attempt with the receipt's traceparent, or "". It
	// returns the attempt's context and the traceparent to send instead, or "" to send the receipt's.
	Begin func(ctx context.Context, t *queue.Task, traceparent string) (context.Context, string)
	// Delivered, if not nil, receives each attempt's context, its result ("success" or "failed") and
	// its duration.
	Delivered func(ctx context.Context, result string, took time.Duration)

	targets db.Cache[string, target]
}

// NewSender returns a sender. Changes on any replica invalidate its cache of destinations.
func NewSender(s *Store, network send.Sender) *Sender {
	sender := &Sender{Store: s, Network: network}
	s.DB.Watch(destinationsChanged, sender.targets.Forget)
	return sender
}

// Scheduler returns a scheduler for the store's queue. At any time it has at most the given number of
// open sockets, and about that many bytes of payload in memory.
func (s *Sender) Scheduler(sockets int, bytes int64) *queue.Scheduler {
	scheduler := queue.NewScheduler(s.Store.Queue, s, sockets, bytes)
	scheduler.Log = s.Store.Log
	return scheduler
}

// target is a destination reduced to the fields a delivery needs.
type target struct {
	url         string
	headers     map[string]string
	timeout     time.Duration
	maxRetries  int
	concurrency int
	pace        pace
	signer      *send.Signer
	deleted     bool
	disabled    bool
	fault       string // why we cannot send anything
}

// target returns a destination by its id alone, from the cache.
func (s *Sender) target(ctx context.Context, destinationID string) (target, error) {
	return s.targets.Get(destinationID, func() (target, error) {
		d, err := s.Store.destination(s.Store.DB.Read(ctx), destinationID)
		if errors.Is(err, db.ErrNoRows) {
			return target{deleted: true, concurrency: queue.DefaultConcurrency}, nil
		}
		if errors.Is(err, errUnreadable) {
			s.Store.Log.Error("read destination", "destination", destinationID, "error", err)
			return target{fault: "the destination's settings cannot be read", concurrency: 1}, nil
		}
		if err != nil {
			return target{}, err
		}
		return target{
			url: d.Config.URL, headers: d.Config.Headers, timeout: time.Duration(d.Config.TimeoutSeconds) * time.Second,
			maxRetries: d.Config.MaxRetries, concurrency: d.Config.Concurrency, pace: d.pace, signer: d.signer(),
			disabled: d.Config.Disabled,
		}, nil
	})
}

// Load reads the receipts for a destination's tasks, and returns its limits.
func (s *Sender) Load(ctx context.Context, destinationID string, tasks []*queue.Task) (limits queue.Limits, err error) {
	to, err := s.target(ctx, destinationID)
	if err != nil {
		return limits, err
	}
	limits.Concurrency = to.concurrency
	if to.pace.rate.Limit > 0 && !to.disabled {
		limits.Rate = to.pace.rate
		if limits.OthersUntil, err = s.Store.Queue.OthersUntil(ctx, destinationID); err != nil {
			return limits, err
		}
	}
	return limits, s.Store.load(ctx, tasks)
}

// loadedRow is a row in the queue with the parts of its receipt that we send.
type loadedRow struct {
	queue.Row
	method, headers *string
	body            []byte
}

// load reads the rows and receipts of tasks. A task has no receipt if retention has removed it. If a
// row is gone or malformed, its task stays as it is, so that it does not hold up the others.
func (s *Store) load(ctx context.Context, tasks []*queue.Task) error {
	keys := make(db.Bulk[string], len(tasks))
	byKey := make(map[string]*queue.Task, len(tasks))
	for i, t := range tasks {
		keys[i] = t.Key
		byKey[t.Key] = t
	}
	rows, err := db.CollectBulk(s.DB.Read(ctx), keys, func(row db.Row) (r loadedRow, err error) {
		return r, row.Scan(&r.Key, &r.ReceiptKey, &r.OrgID, &r.Date, &r.Retries, &r.ReplayID, &r.method, &r.headers, &r.body)
	}, `SELECT q.key, q.receipt_key, q.org_id, q.date, q.retries, q.replay_id, r.method, r.headers, r.body
		FROM {v} JOIN webhook_queue q ON q.key = v.value LEFT JOIN webhook_receipts r ON r.key = q.receipt_key`)
	if err != nil {
		return fmt.Errorf("read deliveries: %w", err)
	}
	for _, r := range rows {
		t := byKey[r.Key]
		if err := checkKeys(r.Row); err != nil {
			s.Log.Error("malformed row in the queue", "destination", t.DestinationID, "key", t.Key, "error", err)
			continue
		}
		s.fill(t, r)
	}
	return nil
}

// checkKeys returns an error unless a row's keys name a delivery and a receipt.
func checkKeys(r queue.Row) error {
	if _, _, err := splitKey(r.Key, id.Delivery); err != nil {
		return err
	}
	_, _, err := splitKey(r.ReceiptKey, id.Receipt)
	return err
}

// fill copies a loaded row into its task.
func (s *Store) fill(t *queue.Task, r loadedRow) {
	t.ReceiptKey = r.ReceiptKey
	t.OrgID = r.OrgID
	t.Date = r.Date
	t.Retries = r.Retries
	t.ReplayID = r.ReplayID
	if r.method == nil {
		return
	}
	headers, err := s.openHeaders(t.WebhookID(), *r.headers)
	if err != nil {
		s.Log.Error("read receipt", "webhook", t.WebhookID(), "receipt", t.ReceiptID(), "error", err)
	}
	t.Request = &queue.Request{Method: *r.method, Headers: headers, Body: r.body}
}

// Attempt makes one attempt. If the delivery cannot be sent, the result says why.
func (s *Sender) Attempt(ctx context.Context, t *queue.Task) (queue.Result, error) {
	r := queue.Result{Row: t.Row, Final: true}
	to, err := s.target(ctx, t.DestinationID)
	if err != nil {
		return r, err
	}
	switch {
	case to.deleted:
		r.Error = "the destination was deleted"
	case to.pace.paused:
		return r, errPaused
	case to.disabled:
		r.Error = "the destination is disabled"
	case t.Request == nil:
		r.Error = "the receipt is no longer kept"
	case to.fault != "":
		r.Error = to.fault
		r.Final = false
		r.MaxRetries = defaultRetries
	default:
		r, err = s.send(ctx, to, t)
	}
	r.At = stamp.Of(s.Store.Now())
	if ctx.Err() != nil { // we are stopping; the destination is not to blame
		return r, ctx.Err()
	}
	return r, err
}

// Finish writes how attempts ended.
func (s *Sender) Finish(ctx context.Context, results []queue.Result) (counted, locked []queue.Result, err error) {
	return s.Store.Finish(ctx, results)
}

func (s *Sender) send(ctx context.Context, to target, t *queue.Task) (queue.Result, error) {
	r := queue.Result{Row: t.Row, MaxRetries: to.maxRetries}
	to.pace.retry.apply(&r)
	received, err := send.UnmarshalFields(t.Request.Headers)
	if err != nil {
		r.Error = "the receipt cannot be read"
		r.Final = true
		return r, nil
	}
	var traceparent string
	if s.Begin != nil {
		ctx, traceparent = s.Begin(ctx, t, send.Value(received, "traceparent"))
	}
	began := time.Now()
	out := s.Network.Send(ctx, send.Request{
		Method: t.Request.Method, URL: to.url, Received: received, Headers: to.headers, Body: t.Request.Body,
		ReceiptID: t.ReceiptID(), DeliveryID: t.DeliveryID(), Attempt: t.Retries, Signer: to.signer, Timeout: to.timeout,
		Traceparent: traceparent,
	})
	r.Error = out.Error
	r.RetryAfter = out.RetryAfter
	r.Gone = out.Gone
	r.Response, err = storedResponse(out.Response)
	if s.Delivered != nil {
		s.Delivered(ctx, string(statusOf(r)), time.Since(began))
	}
	return r, err
}

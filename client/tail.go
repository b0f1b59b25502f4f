package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"mime"
	"net/http"
	"time"
)

// Event is an event in a tail: an accepted receipt, a delivery that has ended, or a gap before the next
// event.
type Event struct {
	// ID is the position after the event. Pass it as LastEventID to continue from there.
	ID string
	// Type is receipt, delivery or gap.
	Type string
	// Data is the receipt, delivery or gap as the server sent it.
	Data json.RawMessage
	// Receipt is set if Type is receipt.
	Receipt *Receipt
	// Delivery is set if Type is delivery.
	Delivery *Delivery
	// Gap is set if Type is gap.
	Gap *Gap
}

// Gap says that events before the next one may be missing, because the server no longer keeps them.
type Gap struct {
	// WebhookID is the webhook whose events are missing. If it is empty, any webhook's may be.
	WebhookID string    `json:"webhook_id"`
	Since     time.Time `json:"since"`
}

// Event types.
const (
	EventReceipt  = "receipt"
	EventDelivery = "delivery"
	EventGap      = "gap"
)

// TailParams selects a tail's events and where it begins. Without LastEventID and Since, it begins with
// the next event that happens.
type TailParams struct {
	// WebhookID limits the tail to one webhook.
	WebhookID string
	// LastEventID is the position to begin after. It takes precedence over Since.
	LastEventID string
	// Since is the time to begin with.
	Since time.Time
	// NoFollow ends the tail after the events that existed when you asked.
	NoFollow bool

	// IdleTimeout bounds how long the connection may be silent before the client gives it up. The server
	// sends something every 15 seconds. The default is 45 seconds.
	IdleTimeout time.Duration
	// Position is called with each position that the tail reaches, even without an event.
	Position func(lastEventID string)
	// Reconnecting is called after the connection is lost and before the client reconnects.
	Reconnecting func(err error, wait time.Duration)
}

// idleTimeout is the default for TailParams.IdleTimeout.
const idleTimeout = 45 * time.Second

// maxReconnectWait bounds the wait between two attempts to reconnect.
const maxReconnectWait = 30 * time.Second

// Tail returns receipts and deliveries as they happen, for one webhook or for all. It reconnects when the
// connection is lost, for as long as it takes, and continues where it was, so it misses and repeats no
// event. Only the first connection is limited to MaxRetries. The sequence ends after the first error: the
// context's, or one that another attempt would not fix, such as a webhook that does not exist.
func (c *Client) Tail(ctx context.Context, params TailParams) iter.Seq2[Event, error] {
	if params.IdleTimeout == 0 {
		params.IdleTimeout = idleTimeout
	}
	return func(yield func(Event, error) bool) {
		t := &tail{client: c, TailParams: params, yield: yield}
		if err := t.run(ctx); err != nil {
			yield(Event{}, err)
		}
	}
}

// tail is a sequence of events that the caller is reading.
type tail struct {
	client *Client
	TailParams
	yield func(Event, error) bool

	connected bool          // at least once
	failures  int           // since the last frame
	retry     time.Duration // the wait that the server named
}

var (
	errStopped = errors.New("the caller wants no more events")
	errIdle    = errors.New("the server sends nothing")
)

// run reads events, over any number of connections, until the caller wants no more or an error is final.
func (t *tail) run(ctx context.Context) error {
	for {
		err := t.read(ctx)
		switch {
		case errors.Is(err, errStopped), t.NoFollow && errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !t.isTemporary(err), !t.connected && t.failures >= t.client.MaxRetries:
			return fmt.Errorf("tail: %w", err)
		}
		wait := t.wait(err)
		t.failures++
		if t.Reconnecting != nil {
			t.Reconnecting(err, wait)
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// isTemporary reports whether another connection may do better.
func (t *tail) isTemporary(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status == http.StatusTooManyRequests || e.Status >= 500
	}
	return errors.Is(err, errIdle) || isNetworkError(err)
}

func (t *tail) wait(err error) time.Duration {
	wait := min(firstWait<<min(t.failures, 16), maxReconnectWait)
	if t.retry > 0 {
		wait = min(t.retry, maxReconnectWait)
	}
	if e, ok := errors.AsType[*Error](err); ok && e.RetryAfter > 0 {
		wait = e.RetryAfter
	}
	return wait + rand.N(wait/4+time.Millisecond)
}

// read reads the events from one connection. It always returns an error; io.EOF means that the response
// ended.
func (t *tail) read(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(t.IdleTimeout, func() { cancel(errIdle) })
	defer idle.Stop()
	res, err := t.open(ctx)
	if err != nil {
		return causeOf(ctx, err)
	}
	defer res.Body.Close()
	t.connected = true
	frames := newFrameReader(res.Body)
	for {
		idle.Reset(t.IdleTimeout)
		f, err := frames.readLine()
		idle.Stop() // the caller may take any time with an event
		if err != nil {
			return causeOf(ctx, err)
		}
		if f == nil {
			continue
		}
		if err := t.handle(f); err != nil {
			return err
		}
	}
}

// causeOf returns errIdle for an error that the idle timer caused.
func causeOf(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errIdle) {
		return errIdle
	}
	return err
}

func (t *tail) open(ctx context.Context) (*http.Response, error) {
	r := request{method: http.MethodGet, path: "/webhook/tail", query: query{}}
	if t.WebhookID != "" {
		r.path = path("/webhook/tail/{webhookId}", t.WebhookID)
	}
	if t.NoFollow {
		r.query.add("follow", "false")
	}
	header := t.client.header(r, nil)
	header.Set("Accept", "text/event-stream")
	if t.LastEventID != "" {
		header.Set("Last-Event-ID", t.LastEventID)
	} else {
		r.query.add("since", t.Since)
	}
	res, err := t.client.open(ctx, r, header, nil)
	if err != nil {
		return nil, err
	}
	if err := checkStream(res); err != nil {
		res.Body.Close()
		return nil, err
	}
	return res, nil
}

// checkStream returns an error unless a response is a stream of events.
func checkStream(res *http.Response) error {
	if err := checkStatus(res); err != nil {
		return err
	}
	mediaType, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if mediaType != "text/event-stream" {
		return fmt.Errorf("the response is %q, not a stream of events", mediaType)
	}
	return nil
}

// handle passes a frame's event to the caller, and notes the position.
func (t *tail) handle(f *frame) error {
	t.failures = 0
	if f.retry > 0 {
		t.retry = f.retry
	}
	if f.hasData {
		event, err := newEvent(f)
		if err != nil {
			return err
		}
		if !t.yield(event, nil) {
			return errStopped
		}
	}
	if f.hasID {
		t.LastEventID = f.id
		if t.Position != nil {
			t.Position(f.id)
		}
	}
	return nil
}

func newEvent(f *frame) (Event, error) {
	event := Event{ID: f.id, Type: f.kind, Data: f.data}
	var target any
	switch f.kind {
	case EventReceipt:
		event.Receipt = &Receipt{}
		target = event.Receipt
	case EventDelivery:
		event.Delivery = &Delivery{}
		target = event.Delivery
	case EventGap:
		event.Gap = &Gap{}
		target = event.Gap
	default:
		return event, nil // a newer server's
	}
	if err := json.Unmarshal(f.data, target); err != nil {
		return event, fmt.Errorf("decode %s: %w", f.kind, err)
	}
	return event, nil
}

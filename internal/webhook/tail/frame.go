package tail

import (
	"context"
	"fmt"
	"time"

	"steward/internal/encode"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/webhook"
	"steward/internal/webhook/eventlog"
)

// frame is an encoded event.
type frame struct {
	at    eventlog.Position
	text  []byte
	added time.Time // to a feed
}

// hook returns the ULID of the event's webhook.
func (f frame) hook() string { return hookOf(f.at) }

func hookOf(p eventlog.Position) string { return p.Key[:len(p.Key)/2] }

// unloaded are events to load for an audience.
type unloaded struct {
	to     audience
	events []eventlog.Event
	// missing collects events that we no longer keep, unless their webhook was deleted.
	missing gaps
	limit   int // roughly how many bytes of frames to return
}

// frames returns events' frames up to the limit, and the number of events that it went through. An
// event that we no longer keep has no frame.
func frames(ctx context.Context, s *webhook.Store, u unloaded) (all []frame, n int, err error) {
	values, err := load(ctx, s, u.to, u.events)
	if err != nil {
		return nil, 0, err
	}
	deleted := map[string]bool{} // by webhook ULID; only webhooks that we have looked up
	for bytes := 0; n < len(u.events) && bytes < u.limit; n++ {
		e := u.events[n]
		if value, found := values[e]; found {
			text, err := encodeEvent(e, value, u.missing)
			if err != nil {
				return nil, 0, err
			}
			all = append(all, frame{at: e.Position, text: text})
			bytes += len(text)
			continue
		}
		hook := hookOf(e.Position)
		if _, known := deleted[hook]; !known {
			if deleted[hook], err = isDeleted(ctx, s, u.to.orgID, hook); err != nil {
				return nil, 0, err
			}
		}
		if !deleted[hook] {
			u.missing.add(hook, e.At)
		}
	}
	return all, n, nil
}

// load returns the events' receipts and deliveries as an audience sees them, except those that are
// gone.
func load(ctx context.Context, s *webhook.Store, to audience, events []eventlog.Event) (map[eventlog.Event]encode.Appender, error) {
	keys := map[eventlog.Kind][]string{}
	for _, e := range events {
		keys[e.Kind] = append(keys[e.Kind], e.Key)
	}
	receipts, err := s.ReceiptsByKey(ctx, to.orgID, keys[eventlog.Receipt])
	if err != nil {
		return nil, err
	}
	deliveries, err := s.DeliveriesByKey(ctx, to.orgID, keys[eventlog.Delivery])
	if err != nil {
		return nil, err
	}
	values := make(map[eventlog.Event]encode.Appender, len(events))
	for _, e := range events {
		if r, found := receipts[e.Key]; found && e.Kind == eventlog.Receipt {
			if to.masked {
				if r, err = r.Masked(); err != nil {
					return nil, err
				}
			}
			values[e] = r
		}
		if d, found := deliveries[e.Key]; found && e.Kind == eventlog.Delivery {
			values[e] = d
		}
	}
	return values, nil
}

func isDeleted(ctx context.Context, s *webhook.Store, orgID, hook string) (bool, error) {
	_, err := s.Get(ctx, orgID, id.Webhook+"_"+hook)
	if errs.KindOf(err) == errs.NotFound {
		return true, nil
	}
	return false, err
}

// encodeEvent encodes an event as a server-sent event, preceded by the gaps before it. JSON has no
// line breaks, so the data fits on one line.
func encodeEvent(e eventlog.Event, value encode.Appender, missing gaps) ([]byte, error) {
	text, err := missing.appendBefore(nil, hookOf(e.Position))
	if err != nil {
		return nil, err
	}
	text = append(append(text, "id: "...), e.Position.String()...)
	text = append(append(text, "\nevent: "...), e.Kind...)
	text, err = value.AppendJSON(append(text, "\ndata: "...))
	if err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	return append(text, "\n\n"...), nil
}

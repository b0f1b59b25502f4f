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

// frame is an event as it is sent.
type frame struct {
	at    eventlog.Position
	text  []byte
	added time.Time // to a feed
}

// hook returns the ULID of the event's webhook.
func (f frame) hook() string { return hookOf(f.at) }

func hookOf(p eventlog.Position) string { return p.Key[:len(p.Key)/2] }

// unloaded are events that an audience is to see.
type unloaded struct {
	to     audience
	events []eventlog.Event
	// missing is where events that are no longer kept are noted, unless their webhook was deleted.
	missing gaps
	limit   int // about how many bytes of frames are wanted
}

// frames returns the frames of events up to the limit, and the number of events that they are for. What
// is no longer kept has none.
func frames(ctx context.Context, s *webhook.Store, u unloaded) (all []frame, n int, err error) {
	values, err := load(ctx, s, u.to, u.events)
	if err != nil {
		return nil, 0, err
	}
	deleted := map[string]bool{} // by the ULID of a webhook, of those that were asked for
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

// load returns the receipts and deliveries of events that are kept, as an audience sees them.
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

// encodeEvent returns an event in the format of server-sent events, after what is missing before it. JSON
// has no line breaks.
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

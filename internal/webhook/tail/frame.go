package tail

import (
	"context"
	"fmt"

	"steward/internal/encode"
	"steward/internal/webhook"
	"steward/internal/webhook/eventlog"
)

// frame is an event as it is sent.
type frame struct {
	at   eventlog.Position
	text []byte
}

// hook returns the ULID of the event's webhook.
func (f frame) hook() string { return hookOf(f.at) }

func hookOf(p eventlog.Position) string { return p.Key[:len(p.Key)/2] }

// frames returns the frames of events of an organization, up to about limit bytes, and the number of
// events that they are for. What is no longer kept has none: it is noted in missing.
func frames(ctx context.Context, s *webhook.Store, orgID string, events []eventlog.Event, missing gaps, limit int) (all []frame, n int, err error) {
	keys := map[eventlog.Kind][]string{}
	for _, e := range events {
		keys[e.Kind] = append(keys[e.Kind], e.Key)
	}
	receipts, err := s.ReceiptsByKey(ctx, orgID, keys[eventlog.Receipt])
	if err != nil {
		return nil, 0, err
	}
	deliveries, err := s.DeliveriesByKey(ctx, orgID, keys[eventlog.Delivery])
	if err != nil {
		return nil, 0, err
	}
	for bytes := 0; n < len(events) && bytes < limit; n++ {
		e := events[n]
		var value encode.Appender
		if r, ok := receipts[e.Key]; ok && e.Kind == eventlog.Receipt {
			value = r
		} else if d, ok := deliveries[e.Key]; ok && e.Kind == eventlog.Delivery {
			value = d
		} else {
			missing.add(hookOf(e.Position), e.At)
			continue
		}
		text, err := encodeEvent(e, value, missing)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, frame{at: e.Position, text: text})
		bytes += len(text)
	}
	return all, n, nil
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

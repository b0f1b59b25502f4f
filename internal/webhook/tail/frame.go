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

// frames returns the frames of events of an organization. What is no longer kept has none.
func frames(ctx context.Context, s *webhook.Store, orgID string, events []eventlog.Event) ([]frame, error) {
	keys := map[eventlog.Kind][]string{}
	for _, e := range events {
		keys[e.Kind] = append(keys[e.Kind], e.Key)
	}
	receipts, err := s.ReceiptsByKey(ctx, orgID, keys[eventlog.Receipt])
	if err != nil {
		return nil, err
	}
	deliveries, err := s.DeliveriesByKey(ctx, orgID, keys[eventlog.Delivery])
	if err != nil {
		return nil, err
	}
	var all []frame
	for _, e := range events {
		var value encode.Appender
		if r, ok := receipts[e.Key]; ok && e.Kind == eventlog.Receipt {
			value = r
		} else if d, ok := deliveries[e.Key]; ok && e.Kind == eventlog.Delivery {
			value = d
		} else {
			continue
		}
		text, err := encodeEvent(e, value)
		if err != nil {
			return nil, err
		}
		all = append(all, frame{at: e.Position, text: text})
	}
	return all, nil
}

// encodeEvent returns an event in the format of server-sent events. JSON has no line breaks.
func encodeEvent(e eventlog.Event, value encode.Appender) ([]byte, error) {
	text := append([]byte("id: "), e.Position.String()...)
	text = append(append(text, "\nevent: "...), e.Kind...)
	text, err := value.AppendJSON(append(text, "\ndata: "...))
	if err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	return append(text, "\n\n"...), nil
}

package tail

import (
	"encoding/json"
	"fmt"
	"slices"

	"steward/internal/id"
	"steward/internal/stamp"
)

// Gap is the data of a gap event. We send one before the next event if we had to skip events that we
// no longer keep.
type Gap struct {
	// WebhookID is the webhook that misses events; without it, any may.
	WebhookID string     `json:"webhook_id,omitempty"`
	Since     stamp.Time `json:"since"`
}

// gaps maps a webhook's ULID to the time since which it misses events; "" stands for all webhooks. We
// tell readers before the webhook's next event.
type gaps map[string]stamp.Time

// add notes that events since a time are missing.
func (g gaps) add(hook string, since stamp.Time) {
	if _, known := g[hook]; !known {
		g[hook] = since
	}
}

// before returns frames with the gaps before them.
func (g gaps) before(all []frame) ([]frame, error) {
	if len(g) == 0 {
		return all, nil
	}
	told := slices.Clone(all)
	for i, one := range told {
		text, err := g.appendBefore(nil, one.hook())
		if err != nil {
			return nil, err
		}
		told[i].text = append(text, one.text...)
	}
	return told, nil
}

// appendBefore appends the gap before a webhook's event, and forgets it. A gap has no id, so a reader
// that did not get the event is told of the gap again.
func (g gaps) appendBefore(text []byte, hook string) ([]byte, error) {
	for _, of := range []string{"", hook} {
		since, found := g[of]
		if !found {
			continue
		}
		delete(g, of)
		gap := Gap{Since: since}
		if of != "" {
			gap.WebhookID = id.Webhook + "_" + of
		}
		data, err := json.Marshal(gap)
		if err != nil {
			return nil, fmt.Errorf("encode gap: %w", err)
		}
		text = fmt.Appendf(text, "event: gap\ndata: %s\n\n", data)
	}
	return text, nil
}

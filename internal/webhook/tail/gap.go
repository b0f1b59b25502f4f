package tail

import (
	"encoding/json"
	"fmt"
	"slices"

	"steward/internal/id"
	"steward/internal/stamp"
)

// Gap is the data of an event of type gap, which is sent before the next event when events were passed
// over that are no longer kept.
type Gap struct {
	// WebhookID is the webhook whose events are missing; without it, those of all may be.
	WebhookID string     `json:"webhook_id,omitempty"`
	Since     stamp.Time `json:"since"`
}

// gaps are the times since when events are missing, by the ULID of their webhook; "" is for all
// webhooks. They are told before the next event of that webhook.
type gaps map[string]stamp.Time

// add notes that events since a time are missing.
func (g gaps) add(hook string, since stamp.Time) {
	if _, known := g[hook]; !known {
		g[hook] = since
	}
}

// before returns frames with what is to be told before them.
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

// appendBefore appends what is to be told before an event of a webhook, and forgets it. A gap has no id,
// so that a reader that did not get the event is told again.
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

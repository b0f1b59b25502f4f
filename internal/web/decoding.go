package web

import (
	"context"
	"time"

	"steward/internal/budget"
	"steward/internal/errs"
)

const (
	// largeText is the size in bytes above which JSON must take turns. Smaller texts are decoded in a few
	// milliseconds.
	largeText = 64 << 10
	// decodeWait is how long a request waits for its turn.
	decodeWait = 30 * time.Second
	// maxMarks caps the opening brackets, commas and colons in JSON larger than MaxBody.
	maxMarks = 400_000
)

// Decoding decodes large JSON one text at a time, while organizations take turns: small objects take 60
// times their text in memory. A hostile text, as large as MaxBody or maxMarks permits, takes 70 MB and
// occupies a processor for half a second. Use NewDecoding to make one.
type Decoding struct{ queue *budget.Queue }

// NewDecoding returns a Decoding.
func NewDecoding() *Decoding { return &Decoding{queue: budget.NewQueue(1)} }

// Do calls decode for a text that an organization has sent. A large text must wait for its turn. Do
// returns TooLarge if the text has too many values, and Unavailable if its turn does not come in time.
func (d *Decoding) Do(ctx context.Context, orgID string, text []byte, decode func() error) error {
	if len(text) <= largeText {
		return decode()
	}
	if len(text) > MaxBody && countMarks(text) > maxMarks {
		return errs.New(errs.TooLarge, "the JSON has too many values")
	}
	ctx, cancel := context.WithTimeout(ctx, decodeWait)
	defer cancel()
	if err := d.queue.Enter(ctx, orgID, ""); err != nil {
		return errs.Unavailablef(nil, "too many large requests are being served") // perhaps other organizations' requests
	}
	defer d.queue.Leave(orgID)
	return decode()
}

// countMarks counts opening brackets, commas and colons outside strings. Every value except the first
// follows one of them.
func countMarks(text []byte) (n int) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '[', '{', ',', ':':
			n++
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		}
	}
	return n
}

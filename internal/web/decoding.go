package web

import (
	"context"
	"time"

	"steward/internal/budget"
	"steward/internal/errs"
)

const (
	// largeText is the size above which JSON is decoded in turn. Smaller ones are decoded in a few
	// milliseconds.
	largeText = 64 << 10
	// decodeWait is how long a request waits for its turn.
	decodeWait = 30 * time.Second
	// maxMarks is the maximum number of opening brackets, commas and colons in JSON of more than MaxBody.
	maxMarks = 400_000
)

// Decoding has large JSON decoded one text after the other, in turn over organizations: a small object
// takes 60 times its text in memory. A hostile text, of MaxBody or maxMarks, takes 70 MB, and a processor
// for half a second. It must be made by NewDecoding.
type Decoding struct{ queue *budget.Queue }

// NewDecoding returns a Decoding.
func NewDecoding() *Decoding { return &Decoding{queue: budget.NewQueue(1)} }

// Do calls decode, which decodes text that an organization sent, in turn if the text is large. It returns
// TooLarge if the text has too many values, and Unavailable if its turn does not come in time.
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
		return errs.Unavailablef(nil, "too many large requests are being served") // maybe of others
	}
	defer d.queue.Leave(orgID)
	return decode()
}

// countMarks returns how many opening brackets, commas and colons JSON has outside of strings. Each value
// but the first comes after one of them.
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

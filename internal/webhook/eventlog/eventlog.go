// Package eventlog owns the log of events: receipts and ended deliveries in the order of their commits, one
// order for each organization. Its table is webhook_log.
//
// Append writes the events of a transaction as part of it, many in one row. A reader begins at Head,
// at the Position of an event that it was shown (Resume) or at a time (Seek), and goes on with After,
// which returns what is settled only: nothing that commits later ever comes before it. Purge removes
// the oldest events. What an event tells of is in the tables of package webhook, and may be gone from
// there.
package eventlog

import (
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"

	"steward/internal/errs"
	"steward/internal/stamp"
)

// Kind is the kind of an event.
type Kind string

// The kinds of events.
const (
	Receipt  Kind = "receipt"  // a request was accepted
	Delivery Kind = "delivery" // an attempt has ended
)

// Event is an entry of the log.
type Event struct {
	Position
	Kind Kind
}

// Position is a place in the log of an organization: after the event with a key, in the commit with
// a number. At is when that was committed, for a log in which the event is not found. A position
// without a key is before all events from At on.
type Position struct {
	Number int64
	Key    string // of the row of the receipt or delivery: the ULIDs of the webhook and its own
	At     stamp.Time
}

// Compare orders positions.
func (p Position) Compare(o Position) int {
	if p.Number != o.Number {
		if p.Number < o.Number {
			return -1
		}
		return 1
	}
	return strings.Compare(p.Key, o.Key)
}

// String returns the position as text, which ParsePosition reads.
func (p Position) String() string {
	raw := make([]byte, 16, 48)
	binary.BigEndian.PutUint64(raw, uint64(p.Number))
	binary.BigEndian.PutUint64(raw[8:], uint64(p.At))
	for i := 0; i < len(p.Key); i += ulid.EncodedSize {
		u, err := ulid.Parse(p.Key[i : i+ulid.EncodedSize])
		if err != nil {
			continue // keys are made of ULIDs
		}
		raw = append(raw, u[:]...)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// ParsePosition returns the position of a text, or Invalid at a location.
func ParsePosition(location, text string) (Position, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != 16 && len(raw) != 48 {
		return Position{}, errs.InvalidField(location, "expected the id of an event")
	}
	p := Position{Number: int64(binary.BigEndian.Uint64(raw)), At: stamp.Time(binary.BigEndian.Uint64(raw[8:]))}
	for rest := raw[16:]; len(rest) > 0; rest = rest[16:] {
		p.Key += strings.ToLower(ulid.ULID(rest[:16]).String())
	}
	return p, nil
}

// maxIDs bounds the events of a row.
const maxIDs = 128

// row is a row of the log: events of one kind, webhook and commit.
type row struct {
	number int64
	key    string // of the first event
	kind   Kind
	at     stamp.Time
	ids    string // ULIDs
}

// rowsOf returns the rows for events with the given keys.
func rowsOf(keys []string) (rows []row) {
	sorted := slices.Sorted(slices.Values(keys))
	for len(sorted) > 0 {
		r := row{key: sorted[0]}
		var ids strings.Builder
		n := 0
		for ; n < min(maxIDs, len(sorted)) && strings.HasPrefix(sorted[n], r.hook()); n++ {
			ids.WriteString(sorted[n][ulid.EncodedSize:])
		}
		r.ids = ids.String()
		rows = append(rows, r)
		sorted = sorted[n:]
	}
	return rows
}

// hook returns the ULID of the webhook.
func (r row) hook() string { return r.key[:ulid.EncodedSize] }

// events returns the events of a row.
func (r row) events() []Event {
	events := make([]Event, 0, len(r.ids)/ulid.EncodedSize)
	for i := 0; i < len(r.ids); i += ulid.EncodedSize {
		at := Position{Number: r.number, Key: r.hook() + r.ids[i:i+ulid.EncodedSize], At: r.at}
		events = append(events, Event{Position: at, Kind: r.kind})
	}
	return events
}

// has reports whether a position is that of an event of the row.
func (r row) has(p Position) bool {
	return r.number == p.Number && slices.ContainsFunc(r.events(), func(e Event) bool { return e.Key == p.Key })
}

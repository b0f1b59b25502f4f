// Package eventlog owns the event log: receipts and ended deliveries in commit order, with one order
// for each organization. Its table is webhook_log.
//
// Append writes a transaction's events within that transaction, many to a row. A reader begins at
// Head, at the Position of an event it has already seen (Resume) or at a time (Seek), and continues
// with After. After returns only settled events: nothing that commits later can come before them.
// Purge removes the oldest events. The receipts and deliveries themselves are in package webhook's
// tables, and may be gone already.
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

// Kind tells events apart.
type Kind string

// The kinds of events.
const (
	Receipt  Kind = "receipt"  // we accepted a request
	Delivery Kind = "delivery" // an attempt ended
)

// Event is an entry in the log.
type Event struct {
	Position
	Kind Kind
}

// Position is a place in an organization's log: just after the event with this key, in the commit with
// this number. At is the commit's time; we resume there if the log no longer has the event. A position
// without a key comes before all events from At on.
type Position struct {
	Number int64
	Key    string // the receipt's or delivery's row key: two ULIDs, the webhook's and its own
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

// String encodes the position for ParsePosition.
func (p Position) String() string {
	raw := make([]byte, 16, 48)
	binary.BigEndian.PutUint64(raw, uint64(p.Number))
	binary.BigEndian.PutUint64(raw[8:], uint64(p.At))
	for i := 0; i < len(p.Key); i += ulid.EncodedSize {
		u, err := ulid.Parse(p.Key[i : i+ulid.EncodedSize])
		if err != nil {
			continue // keys consist of ULIDs
		}
		raw = append(raw, u[:]...)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// ParsePosition decodes a position, or returns Invalid for the field at location.
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

// maxIDs bounds the events in a row.
const maxIDs = 128

// row is a row in the log: events that share their kind, webhook and commit.
type row struct {
	number int64
	key    string // the first event's
	kind   Kind
	at     stamp.Time
	ids    string // ULIDs
}

// rowsOf packs events with the given keys into rows.
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

// hook returns the webhook's ULID.
func (r row) hook() string { return r.key[:ulid.EncodedSize] }

func (r row) events() []Event {
	events := make([]Event, 0, len(r.ids)/ulid.EncodedSize)
	for i := 0; i < len(r.ids); i += ulid.EncodedSize {
		at := Position{Number: r.number, Key: r.hook() + r.ids[i:i+ulid.EncodedSize], At: r.at}
		events = append(events, Event{Position: at, Kind: r.kind})
	}
	return events
}

// has reports whether the row contains the event at a position.
func (r row) has(p Position) bool {
	return r.number == p.Number && slices.ContainsFunc(r.events(), func(e Event) bool { return e.Key == p.Key })
}

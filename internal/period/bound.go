package period

import (
	"time"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/errs"
	"steward/internal/stamp"
)

// Bound is a time or a date of a request at which something begins or ends, or "". A time without an
// offset is in UTC. A date is its beginning in UTC, as a start and as an end.
type Bound string

// BoundFormat is the format of a Bound in the OpenAPI document.
const BoundFormat = "time-or-date"

// Schema documents a bound. Parse checks the rest.
func (Bound) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{
		Type: "string", Format: BoundFormat, Pattern: `^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])([Tt]|$)`, PatternDescription: expectedBound,
		Examples: []any{"2026-11-15T08:30:00Z"},
	}
	s.PrecomputeMessages()
	return s
}

const expectedBound = "an RFC 3339 time such as 2026-11-15T08:30:00Z, or a date such as 2026-11-15"

// Parse returns the time of a bound, or nil if that is "". It adds a fault at location if it is neither
// a time nor a date.
func (b Bound) Parse(faults *errs.Faults, location string) *stamp.Time {
	if b == "" {
		return nil
	}
	text := string(b)
	if _, err := time.Parse(time.DateOnly, text); err == nil {
		text += "T00:00:00"
	}
	for _, offset := range []string{"", "Z"} {
		var at stamp.Time
		if at.UnmarshalText([]byte(text+offset)) == nil {
			return &at
		}
	}
	faults.Add(location, "expected %s", expectedBound)
	return nil
}

// Between has the query parameters of lists that can be restricted to a time.
type Between struct {
	Since Bound `query:"since" doc:"Only from this time on. A date means its beginning, 00:00 UTC"`
	Until Bound `query:"until" doc:"Only before this time. A date means its beginning, 00:00 UTC, so that the day itself is not included"`
}

// Times returns the two times, which are nil if they are absent.
func (b Between) Times(faults *errs.Faults) (since, until *stamp.Time) {
	return b.Since.Parse(faults, "query.since"), b.Until.Parse(faults, "query.until")
}

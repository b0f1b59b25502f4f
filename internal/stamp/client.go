package stamp

import (
	"encoding/json"
	"math"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/errs"
)

const (
	// MaxSkew is how far ahead of the server a client's clock may be.
	MaxSkew = 5 * time.Minute

	// maxMillis is the last millisecond of the year 9999, the last one that RFC 3339 can express.
	maxMillis = 253402300799999
)

// ClientTime is a timestamp from a client's clock: an RFC 3339 time or a number of milliseconds
// since 1970. Its zero value means that none was sent.
type ClientTime struct {
	Time Time

	invalid bool
}

// UnmarshalJSON reads either form. It never fails, so that Check can report an invalid timestamp
// along with the other errors of a request.
func (c *ClientTime) UnmarshalJSON(b []byte) error {
	*c = ClientTime{}
	var value any
	if err := json.Unmarshal(b, &value); err != nil {
		c.invalid = true // a number beyond float64
		return nil
	}
	switch v := value.(type) {
	case nil:
	case float64:
		c.invalid = v < 0 || v > maxMillis
		if !c.invalid {
			c.Time = Time(math.Round(v * 1000))
		}
	case string:
		c.invalid = c.Time.UnmarshalText([]byte(v)) != nil || c.Time < 0
	default:
		c.invalid = true
	}
	return nil
}

// Schema documents both forms.
func (ClientTime) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Description: "RFC 3339 time, or milliseconds since 1970. Defaults to the server's time. " +
			"Timestamps more than 5 minutes in the future are replaced with the server's time.",
		Examples: []any{"2026-11-15T08:30:00Z"},
	}
}

// Check adds an error to faults if the client sent something other than a time.
func (c ClientTime) Check(faults *errs.Faults, location string) {
	faults.Check(!c.invalid, location, "expected an RFC 3339 time or milliseconds since 1970")
}

// Resolve returns the client's time, or now if none was sent or if it is more than MaxSkew in the
// future: a record from a client whose clock is wrong is still worth keeping.
func (c ClientTime) Resolve(now Time) Time {
	if c.Time <= 0 || c.Time > now.Add(MaxSkew) {
		return now
	}
	return c.Time
}

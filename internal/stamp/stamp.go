// Package stamp owns how Steward writes down times: BIGINT microseconds in both databases, RFC 3339 in UTC with milliseconds on the wire.
// One type serves as column, field and JSON value, so that no layer converts.
package stamp

import (
	"fmt"
	"time"
)

// Layout is the form of every time that leaves the API: 2026-11-15T08:30:00.123Z.
const Layout = "2006-01-02T15:04:05.000Z"

// Time is a moment in microseconds since 1970.
type Time int64

// Of turns a time into a Time.
func Of(t time.Time) Time { return Time(t.UnixMicro()) }

// Std gives the moment as a time.Time in UTC.
func (t Time) Std() time.Time { return time.UnixMicro(int64(t)).UTC() }

// Add moves the moment by d.
func (t Time) Add(d time.Duration) Time { return t + Time(d.Microseconds()) }

// Sub gives the time between two moments.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t-u) * time.Microsecond }

func (t Time) String() string { return string(t.Append(make([]byte, 0, len(Layout)))) }

// MarshalText writes the wire form.
func (t Time) MarshalText() ([]byte, error) { return t.Append(make([]byte, 0, len(Layout))), nil }

// Append adds the wire form to a buffer. Answers are full of times, and time.Format reads its layout anew for each.
func (t Time) Append(to []byte) []byte {
	std := t.Std()
	year, month, day := std.Date()
	if year < 0 || year > 9999 {
		return std.AppendFormat(to, Layout)
	}
	hour, minute, second := std.Clock()
	to = append(digits(to, year/100), '0'+byte(year/10%10), '0'+byte(year%10), '-')
	to = append(digits(to, int(month)), '-')
	to = append(digits(to, day), 'T')
	to = append(digits(to, hour), ':')
	to = append(digits(to, minute), ':')
	to = append(digits(to, second), '.')
	milli := std.Nanosecond() / int(time.Millisecond)
	return append(to, '0'+byte(milli/100), '0'+byte(milli/10%10), '0'+byte(milli%10), 'Z')
}

// digits adds a number below 100.
func digits(to []byte, n int) []byte { return append(to, '0'+byte(n/10), '0'+byte(n%10)) }

// UnmarshalText reads any RFC 3339 time with a four-digit year, whatever its offset.
func (t *Time) UnmarshalText(text []byte) error {
	std, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return fmt.Errorf("expected an RFC 3339 time such as 2026-11-15T08:30:00Z")
	}
	*t = Of(std)
	return nil
}

// Package stamp owns the representation of times: microseconds since 1970 in the databases (BIGINT),
// RFC 3339 in UTC with milliseconds in JSON. Time is the type of columns, fields and JSON values, so
// that no layer converts. Of Steward it imports errs.
package stamp

import (
	"bytes"
	"errors"
	"regexp"
	"time"
)

// Layout is the format of times in JSON: 2026-11-15T08:30:00.123Z.
const Layout = "2006-01-02T15:04:05.000Z"

// Time is a point in time, in microseconds since 1970.
type Time int64

// Of converts a time.Time, truncated to microseconds.
func Of(t time.Time) Time { return Time(t.UnixMicro()) }

// Std returns t as a time.Time in UTC.
func (t Time) Std() time.Time { return time.UnixMicro(int64(t)).UTC() }

// Add returns t+d.
func (t Time) Add(d time.Duration) Time { return t + Time(d.Microseconds()) }

// Sub returns the duration t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t-u) * time.Microsecond }

func (t Time) String() string { return string(t.Append(make([]byte, 0, len(Layout)))) }

// MarshalText formats t with Layout.
func (t Time) MarshalText() ([]byte, error) { return t.Append(make([]byte, 0, len(Layout))), nil }

// Append appends t, formatted with Layout. It is faster than time.Time.AppendFormat, which parses
// its layout on each call.
func (t Time) Append(to []byte) []byte {
	std := t.Std()
	year, month, day := std.Date()
	if year < 0 || year > 9999 {
		return std.AppendFormat(to, Layout)
	}
	hour, minute, second := std.Clock()
	to = twoDigits(to, year/100)
	to = append(twoDigits(to, year%100), '-')
	to = append(twoDigits(to, int(month)), '-')
	to = append(twoDigits(to, day), 'T')
	to = append(twoDigits(to, hour), ':')
	to = append(twoDigits(to, minute), ':')
	to = append(twoDigits(to, second), '.')
	milli := std.Nanosecond() / int(time.Millisecond)
	return append(twoDigits(append(to, '0'+byte(milli/100)), milli%100), 'Z')
}

// twoDigits appends a number below 100.
func twoDigits(to []byte, n int) []byte { return append(to, '0'+byte(n/10), '0'+byte(n%10)) }

// rfc3339 is the form of RFC 3339 times. Package time also accepts offsets of 24 hours, commas and
// hours of one digit.
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// UnmarshalText parses an RFC 3339 time with any offset. T and Z may be in lower case. A time whose
// year has more than four digits in UTC could not be written again and is refused.
func (t *Time) UnmarshalText(text []byte) error {
	text = bytes.ToUpper(text)
	std, err := time.Parse(time.RFC3339Nano, string(text))
	if year := std.UTC().Year(); err != nil || !rfc3339.Match(text) || year < 0 || year > 9999 {
		return errors.New("expected an RFC 3339 time such as 2026-11-15T08:30:00Z")
	}
	*t = Of(std)
	return nil
}

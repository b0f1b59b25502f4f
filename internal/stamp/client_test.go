package stamp_test

import (
	"encoding/json"
	"testing"
	"time"

	"steward/internal/errs"
	"steward/internal/stamp"
)

type body struct {
	Timestamp stamp.ClientTime `json:"timestamp"`
}

func decode(t *testing.T, text string) body {
	t.Helper()
	var b body
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return b
}

func check(c stamp.ClientTime) error {
	var faults errs.Faults
	c.Check(&faults, "body.timestamp")
	return faults.Err()
}

func TestClientTimeResolves(t *testing.T) {
	now := stamp.Of(time.Date(2026, 11, 15, 8, 0, 0, 0, time.UTC))
	for text, want := range map[string]stamp.Time{
		`{}`:                                          now,
		`{"timestamp":null}`:                          now,
		`{"timestamp":0}`:                             now,
		`{"timestamp":1794726000000}`:                 now.Add(-time.Hour),
		`{"timestamp":1794726000000.25}`:              now.Add(-time.Hour + 250*time.Microsecond),
		`{"timestamp":1894752000000}`:                 now,
		`{"timestamp":253402300799999}`:               now,
		`{"timestamp":"2026-11-15T07:00:00Z"}`:        now.Add(-time.Hour),
		`{"timestamp":"2026-11-15T09:05:00.0+01:00"}`: now.Add(5 * time.Minute),
		`{"timestamp":"2026-11-15T08:05:00.001Z"}`:    now,
		`{"timestamp":"9999-12-31T23:59:59.999Z"}`:    now,
	} {
		b := decode(t, text)
		if got := b.Timestamp.Resolve(now); got != want {
			t.Errorf("%s resolves to %s, want %s", text, got, want)
		}
		if err := check(b.Timestamp); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestClientTimeReportsOtherValuesAsInvalid(t *testing.T) {
	for _, text := range []string{`"yesterday"`, `""`, `"1794726000000"`, `"1969-12-31T23:59:59Z"`, `-1`, `1e300`, `1e400`, `{}`, `[1]`, `true`} {
		b := decode(t, `{"timestamp":`+text+`}`)
		if err := check(b.Timestamp); errs.KindOf(err) != errs.Invalid {
			t.Errorf("%s: %v, want Invalid", text, err)
		}
	}
}

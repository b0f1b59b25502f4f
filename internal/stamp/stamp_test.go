package stamp_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"steward/internal/stamp"
)

func TestJSONIsUTCWithMilliseconds(t *testing.T) {
	for in, want := range map[string]string{
		`"2026-11-15T08:30:00.123456Z"`:   `"2026-11-15T08:30:00.123Z"`,
		`"2026-11-15T08:30:00Z"`:          `"2026-11-15T08:30:00.000Z"`,
		`"2026-11-15T08:30:00.5+05:30"`:   `"2026-11-15T03:00:00.500Z"`,
		`"1969-12-31T23:59:59.999-00:00"`: `"1969-12-31T23:59:59.999Z"`,
		`"2026-11-15t08:30:00z"`:          `"2026-11-15T08:30:00.000Z"`,
		`"2026-11-15T08:30:00+23:59"`:     `"2026-11-14T08:31:00.000Z"`,
		`"9999-12-31T23:59:59.999Z"`:      `"9999-12-31T23:59:59.999Z"`,
	} {
		var at stamp.Time
		if err := json.Unmarshal([]byte(in), &at); err != nil {
			t.Errorf("%s: %v", in, err)
		}
		if out, _ := json.Marshal(at); string(out) != want {
			t.Errorf("%s became %s, want %s", in, out, want)
		}
	}
	for _, bad := range []string{
		`"yesterday"`, `"2026-11-15"`, `"2026-11-15 08:30:00"`, `"2026-13-01T00:00:00Z"`, `""`,
		`"9999-12-31T23:59:59-14:00"`, `"0000-01-01T00:00:00+14:00"`, `"2026-11-15T08:30:00+24:00"`, `"2026-11-15T08:30:00-00:60"`,
		`"2026-11-15T8:30:00Z"`, `"2026-11-15T08:30:00,5Z"`,
	} {
		var at stamp.Time
		if json.Unmarshal([]byte(bad), &at) == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

func TestArithmetic(t *testing.T) {
	now := time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC)
	at := stamp.Of(now)
	if at.Add(time.Minute).Sub(at) != time.Minute || !at.Std().Equal(now) {
		t.Fatal("Add, Sub and Std disagree")
	}
}

func TestAppendEqualsTimeFormat(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	first := stamp.Of(time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC))
	last := stamp.Of(time.Date(10001, 1, 1, 0, 0, 0, 0, time.UTC))
	for range 100_000 {
		at := first + stamp.Time(random.Int64N(int64(last-first)))
		if got, want := at.String(), at.Std().Format(stamp.Layout); got != want {
			t.Fatalf("%d is formatted as %s, want %s", at, got, want)
		}
	}
}

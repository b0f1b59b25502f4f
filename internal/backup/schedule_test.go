package backup_test

import (
	"testing"
	"time"

	"steward/internal/backup"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestSchedule(t *testing.T) {
	daily := backup.Schedule{At: 3 * time.Hour}
	midnight := backup.Schedule{}
	interval := backup.Schedule{Every: 6 * time.Hour}
	for _, test := range []struct {
		name                   string
		schedule               backup.Schedule
		from, first, following string
	}{
		{"interval", interval, "2026-11-17T22:30:00Z", "2026-11-17T22:30:00Z", "2026-11-18T04:30:00Z"},
		{"before the time", daily, "2026-11-17T02:59:59Z", "2026-11-17T03:00:00Z", "2026-11-17T03:00:00Z"},
		{"at the time", daily, "2026-11-17T03:00:00Z", "2026-11-18T03:00:00Z", "2026-11-18T03:00:00Z"},
		{"after the time", daily, "2026-11-17T03:00:07Z", "2026-11-18T03:00:00Z", "2026-11-18T03:00:00Z"},
		{"end of a year", daily, "2026-12-31T23:59:59Z", "2027-01-01T03:00:00Z", "2027-01-01T03:00:00Z"},
		{"another time zone", daily, "2026-11-17T04:30:00+02:00", "2026-11-17T03:00:00Z", "2026-11-17T03:00:00Z"},
		{"midnight", midnight, "2026-11-17T00:00:00Z", "2026-11-18T00:00:00Z", "2026-11-18T00:00:00Z"},
	} {
		from := at(t, test.from)
		if got := test.schedule.First(from); !got.Equal(at(t, test.first)) {
			t.Errorf("%s: the first is at %s", test.name, got)
		}
		if got := test.schedule.Next(from); !got.Equal(at(t, test.following)) {
			t.Errorf("%s: the next is at %s", test.name, got)
		}
	}
}

func TestRetriesAreNotLaterThanTheSchedule(t *testing.T) {
	failed := at(t, "2026-11-17T03:00:30Z")
	for _, test := range []struct {
		schedule backup.Schedule
		failures int
		want     time.Duration
	}{
		{backup.Schedule{At: 3 * time.Hour}, 1, time.Minute},
		{backup.Schedule{At: 3 * time.Hour}, 2, 2 * time.Minute},
		{backup.Schedule{At: 3 * time.Hour}, 6, 32 * time.Minute},
		{backup.Schedule{At: 3 * time.Hour}, 7, time.Hour},
		{backup.Schedule{At: 3 * time.Hour}, 1 << 40, time.Hour},
		{backup.Schedule{At: 3*time.Hour + 10*time.Minute}, 9, 9*time.Minute + 30*time.Second},
		{backup.Schedule{Every: 10 * time.Minute}, 9, 10 * time.Minute},
	} {
		if got := test.schedule.Retry(failed, test.failures).Sub(failed); got != test.want {
			t.Errorf("%+v after %d failures: %s, want %s", test.schedule, test.failures, got, test.want)
		}
	}
}

package output_test

import (
	"testing"
	"time"

	"steward/internal/cli/output"
)

// The expected texts are those of console/src/lib/format.ts.

func TestSizesAreThoseOfTheConsole(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 1049: "1.0 kB", 1050: "1.1 kB", 1150: "1.1 kB", 1250: "1.3 kB", 1750: "1.8 kB",
		2048: "2.0 kB", 9950: "9.9 kB", 9999: "10.0 kB", 10_000: "10 kB", 10_500: "11 kB", 999_499: "999 kB", 999_500: "1.0 MB",
		1_257_000: "1.3 MB", 5e9: "5.0 GB", 25e11: "2.5 TB", 1e15: "1.0 PB", 5e18: "5000 PB",
	} {
		if got := output.ByteSize(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestDurationsAreThoseOfTheConsole(t *testing.T) {
	for ms, want := range map[int64]string{
		0: "0 ms", 999: "999 ms", 1000: "1.0 s", 1249: "1.2 s", 1250: "1.3 s", 9999: "10.0 s", 10_500: "11 s", 59_999: "60 s",
		60_000: "1 min", 89_999: "1 min", 90_000: "2 min", 3_599_999: "60 min", 3_600_000: "1 h", 172_799_999: "48 h",
		172_800_000: "2 days", 2_592_000_000: "30 days",
	} {
		if got := output.Duration(time.Duration(ms) * time.Millisecond); got != want {
			t.Errorf("%d: %s, want %s", ms, got, want)
		}
	}
}

func TestTimesAreThoseOfTheConsole(t *testing.T) {
	for ms, want := range map[int64]string{
		0: "now", -4999: "now", -5000: "5 s ago", -59_499: "59 s ago", -59_500: "60 s ago", -7_200_000: "2 h ago",
		2_940_000: "in 49 min", 2_592_000_000: "in 30 days",
	} {
		if got := output.Ago(now.Add(time.Duration(ms)*time.Millisecond), now); got != want {
			t.Errorf("%d: %s, want %s", ms, got, want)
		}
	}
}

package output

import (
	"math"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// The console has the same units (console/src/lib/format.ts), so that both show the same figures.

// ByteSize returns a size in decimal units, in which storage costs are counted.
func ByteSize(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	units := []string{"kB", "MB", "GB", "TB", "PB"}
	size := float64(n) / 1000
	i := 0
	for size >= 999.5 && i < len(units)-1 {
		size /= 1000
		i++
	}
	if size < 10 {
		return oneDigit(size) + " " + units[i]
	}
	return whole(size) + " " + units[i]
}

// Duration returns a duration in its largest unit.
func Duration(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms < 1000:
		return whole(ms) + " ms"
	case ms < 10_000:
		return oneDigit(ms/1000) + " s"
	case ms < 60_000:
		return whole(ms/1000) + " s"
	case ms < 3_600_000:
		return whole(ms/60_000) + " min"
	case ms < 172_800_000:
		return whole(ms/3_600_000) + " h"
	}
	return whole(ms/86_400_000) + " days"
}

// Ago returns a time relative to now.
func Ago(at, now time.Time) string {
	distance := at.Sub(now).Abs()
	if distance < 5*time.Second {
		return "now"
	}
	text := Duration(distance)
	if distance < 59_500*time.Millisecond {
		text = whole(distance.Seconds()) + " s"
	}
	if at.Before(now) {
		return text + " ago"
	}
	return "in " + text
}

// Plural returns a number of things, such as "1 row" or "1,257 deliveries".
func Plural(n int64, thing string) string {
	return humanize.Comma(n) + " " + english.PluralWord(int(n), thing, "")
}

func whole(n float64) string { return strconv.FormatFloat(math.Floor(n+0.5), 'f', 0, 64) }

// oneDigit returns a number with one digit after the point. It rounds ties up, as JavaScript does;
// only quarters can be ties.
func oneDigit(n float64) string {
	if quarters := n * 4; quarters == math.Trunc(quarters) {
		n += 0.01
	}
	return strconv.FormatFloat(n, 'f', 1, 64)
}

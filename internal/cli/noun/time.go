package noun

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// TimeFormat is the API's.
const TimeFormat = "2006-01-02T15:04:05.000Z07:00"

// moment parses a time, or a duration before (-1) or after (1) now.
func moment(text string, sign time.Duration) (string, error) {
	if d, err := Duration(text); err == nil {
		return time.Now().Add(sign * d).UTC().Format(TimeFormat), nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC().Format(TimeFormat), nil
		}
	}
	return "", fmt.Errorf("must be a duration, such as 90s, 12h or 30d, or a time, such as 2026-11-15T08:30:00Z")
}

// Duration parses Go's durations, with days in front: 30d, 1d12h.
func Duration(text string) (time.Duration, error) {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 15)
	if err != nil {
		return 0, err
	}
	total := time.Duration(n) * 24 * time.Hour
	if rest == "" {
		return total, nil
	}
	d, err := time.ParseDuration(rest)
	return total + d, err
}

// PastTime parses a time, or a duration before now.
func PastTime(text string) (time.Time, error) {
	at, err := moment(text, -1)
	if err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339, at)
}

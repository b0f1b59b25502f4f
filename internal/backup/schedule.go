package backup

import "time"

// day is a day of UTC, which has no daylight saving time.
const day = 24 * time.Hour

// Schedule says when backups are made: Every interval, or daily At a time after midnight UTC if Every is 0.
type Schedule struct {
	Every time.Duration
	At    time.Duration
}

// First returns when the first backup is due of a schedule that was set at a time.
func (s Schedule) First(set time.Time) time.Time {
	if s.Every > 0 {
		return set
	}
	return s.Next(set)
}

// Next returns when a backup is due after one that began at a time.
func (s Schedule) Next(began time.Time) time.Time {
	if s.Every > 0 {
		return began.Add(s.Every)
	}
	next := began.UTC().Truncate(day).Add(s.At)
	if !next.After(began) {
		next = next.Add(day)
	}
	return next
}

const (
	firstRetry = time.Minute
	maxRetry   = time.Hour
)

// Retry returns when a backup is tried again after a number of failures in a row, the last of which ended at
// a time. The pause doubles up to an hour; it is not longer than the schedule's.
func (s Schedule) Retry(failed time.Time, failures int) time.Time {
	pause := maxRetry
	if failures < 7 {
		pause = min(firstRetry<<max(failures-1, 0), maxRetry)
	}
	retry := failed.Add(pause)
	if next := s.Next(failed); next.Before(retry) {
		return next
	}
	return retry
}

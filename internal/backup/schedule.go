package backup

import "time"

// day is a day in UTC, which has no daylight saving time.
const day = 24 * time.Hour

// Schedule says when to make backups: Every interval, or daily At a time after midnight UTC if Every is 0.
type Schedule struct {
	Every time.Duration
	At    time.Duration
}

// First returns when the first backup is due if the schedule was set at the given time.
func (s Schedule) First(set time.Time) time.Time {
	if s.Every > 0 {
		return set
	}
	return s.Next(set)
}

// Next returns when the next backup is due after one that began at the given time.
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

// Retry returns the time for another try after a number of failures in a row, the last of which ended at
// failed. The pause doubles up to an hour, but never goes past the next scheduled backup.
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

package oidc

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/id"
	"steward/internal/stamp"
)

// Day is a day in UTC, counted from 1970. It is written as YYYY-MM-DD.
type Day int64

func dayOf(t stamp.Time) Day { return Day(t.Std().Unix() / 86_400) }

// MarshalText writes the wire form.
func (d Day) MarshalText() ([]byte, error) {
	return time.Unix(int64(d)*86_400, 0).UTC().AppendFormat(nil, time.DateOnly), nil
}

// UnmarshalText reads the wire form.
func (d *Day) UnmarshalText(text []byte) error {
	t, err := time.Parse(time.DateOnly, string(text))
	*d = dayOf(stamp.Of(t))
	return err
}

// DayOfClient is what one client did on a day.
type DayOfClient struct {
	Date        Day   `json:"activity_date" format:"date"`
	TotalAccess int64 `json:"total_access" doc:"Tokens issued, and userinfo and introspection answered"`
	UniqueUsers int64 `json:"unique_users"`
}

// DayOfAll is what a client did on a day, in the list of all clients.
type DayOfAll struct {
	ClientID    string `json:"client_id"`
	Date        Day    `json:"activity_date" format:"date"`
	UniqueUsers int64  `json:"unique_users"`
}

// Activity counts accesses in memory; Flush, called once a second and once more at the end, writes them. The counts are exact, with one
// exception: of a process that is killed, the accesses since its last Flush (a second's worth) are lost. A batch whose commit was in
// doubt is written again under its own id, and counted once.
type Activity struct {
	Store *Store

	mu      sync.Mutex
	pending map[clientDay]*tally
	// counted are the users who are written for a day already, so that a user who calls all day long is written once. It is only
	// there to save work: the rows decide.
	counted map[clientDay]map[string]bool
	size    int

	flushing sync.Mutex
	// waiting are batches that could not be written yet; the first of them may have been.
	waiting []*batch
}

type clientDay struct {
	clientID string
	day      Day
}

// tally is what happened since the last Flush.
type tally struct {
	total int64
	last  stamp.Time
	users map[string]bool
}

// batch is a piece of work for one transaction, with an id by which it is written once.
type batch struct {
	id    string
	lines []line
}

type line struct {
	clientDay
	total int64
	last  stamp.Time
	users []string
}

const (
	// maxLines bounds a transaction: lines and users together.
	maxLines = 500
	// maxCounted bounds the memory of users who are written already.
	maxCounted = 200_000
)

// Note counts an access: a token issued, or a userinfo or introspection answered. userID is empty when no user stands behind it.
// What cannot be an id is not counted: it could never be written.
func (a *Activity) Note(clientID, userID string) {
	if !id.Foreign(clientID) {
		return
	}
	now := a.Store.now()
	key := clientDay{clientID, dayOf(now)}
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.pending[key]
	if t == nil {
		if a.pending == nil {
			a.pending = map[clientDay]*tally{}
		}
		t = &tally{users: map[string]bool{}}
		a.pending[key] = t
	}
	t.total++
	t.last = max(t.last, now)
	if id.Foreign(userID) && !a.counted[key][userID] {
		t.users[userID] = true
	}
}

// Flush writes what was noted since the last one. What cannot be written is kept for the next time.
func (a *Activity) Flush(ctx context.Context) error {
	a.flushing.Lock()
	defer a.flushing.Unlock()
	if err := a.drain(ctx); err != nil {
		return err
	}
	a.waiting = batches(a.take())
	return a.drain(ctx)
}

// drain writes the batches that wait.
func (a *Activity) drain(ctx context.Context) error {
	for len(a.waiting) > 0 {
		if err := a.Store.addActivity(ctx, a.waiting[0]); err != nil {
			return err
		}
		a.remember(a.waiting[0])
		a.waiting = a.waiting[1:]
	}
	return nil
}

func (a *Activity) take() map[clientDay]*tally {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.pending
	a.pending = nil
	return taken
}

// remember notes users as written. The day before is forgotten, and everything when it is too much.
func (a *Activity) remember(b *batch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counted == nil || a.size > maxCounted {
		a.counted, a.size = map[clientDay]map[string]bool{}, 0
	}
	for _, l := range b.lines {
		known := a.counted[l.clientDay]
		if known == nil {
			known = map[string]bool{}
			a.counted[l.clientDay] = known
			delete(a.counted, clientDay{l.clientID, l.day - 1})
		}
		for _, u := range l.users {
			known[u] = true
			a.size++
		}
	}
}

// batches cuts what was noted into transactions. Lines are in the order of clients, so that replicas which flush at the same time wait for
// each other instead of deadlocking.
func batches(noted map[clientDay]*tally) []*batch {
	var out []*batch
	size := maxLines
	for _, l := range lines(noted) {
		if size+1+len(l.users) > maxLines {
			out = append(out, &batch{id: id.New("fls")})
			size = 0
		}
		last := out[len(out)-1]
		last.lines = append(last.lines, l)
		size += 1 + len(l.users)
	}
	return out
}

// lines turns tallies into lines with a bounded number of users; the total stands in the first line of each.
func lines(noted map[clientDay]*tally) []line {
	var out []line
	for key, t := range noted {
		l := line{clientDay: key, total: t.total, last: t.last}
		for u := range t.users {
			l.users = append(l.users, u)
			if len(l.users) == maxLines-1 {
				out = append(out, l)
				l = line{clientDay: key, last: t.last}
			}
		}
		if l.total > 0 || len(l.users) > 0 {
			out = append(out, l)
		}
	}
	slices.SortStableFunc(out, func(a, b line) int {
		if c := strings.Compare(a.clientID, b.clientID); c != 0 {
			return c
		}
		return int(a.day - b.day)
	})
	return out
}

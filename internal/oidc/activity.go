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

// Day counts the days since 1970 in UTC. Its text form is YYYY-MM-DD.
type Day int64

func dayOf(t stamp.Time) Day { return Day(t.Std().Unix() / 86_400) }

// MarshalText returns the text form.
func (d Day) MarshalText() ([]byte, error) {
	return time.Unix(int64(d)*86_400, 0).UTC().AppendFormat(nil, time.DateOnly), nil
}

// UnmarshalText parses the text form.
func (d *Day) UnmarshalText(text []byte) error {
	t, err := time.Parse(time.DateOnly, string(text))
	if err != nil {
		return err
	}
	*d = dayOf(stamp.Of(t))
	return nil
}

// ActivityDay is a client's activity on one day.
type ActivityDay struct {
	_ struct{} `goName:"OAuthActivityDay"`

	Date        Day   `json:"activity_date" format:"date" example:"2026-11-15"`
	TotalAccess int64 `json:"total_access" doc:"Number of tokens issued and of userinfo and introspection responses" example:"58"`
	UniqueUsers int64 `json:"unique_users" example:"12"`
}

// ClientActivityDay is one client's activity on one day, in a list that covers several clients.
type ClientActivityDay struct {
	_ struct{} `goName:"OAuthClientActivityDay"`

	ClientID    string `json:"client_id" example:"oac_01jcq3w7y2b5d8f1h4k7n0q3st"`
	Date        Day    `json:"activity_date" format:"date" example:"2026-11-15"`
	UniqueUsers int64  `json:"unique_users" example:"12"`
}

// Activity counts accesses in memory. Call Flush once a second, and once more at shutdown, to write the
// counts.
//
// The counts are exact, except that a killed process loses the accesses since its last Flush. If a
// commit fails without a clear result, we write the batch again under the same id, so that it counts
// once.
type Activity struct {
	Store *Store

	mu      sync.Mutex
	pending map[clientDay]*tally
	// counted holds the users already written for a day, so that a user who calls all day is written
	// once. It only saves work: the rows decide.
	counted     map[clientDay]map[string]bool
	countedSize int

	flushing sync.Mutex
	// unwritten holds the batches still to be written. The first one may be in the database already.
	unwritten []*batch
}

type clientDay struct {
	clientID string
	day      Day
}

// tally counts the accesses since the last Flush.
type tally struct {
	total int64
	last  stamp.Time
	users map[string]bool
}

// batch is the work for one transaction. Its id makes sure that we write it once.
type batch struct {
	id    string
	lines []line
}

// line is a tally for a client and day, or a part of one.
type line struct {
	clientDay
	total int64
	last  stamp.Time
	users []string
}

const (
	// maxBatch caps a batch's lines and users, together.
	maxBatch = 500
	// maxCounted caps the users in Activity.counted.
	maxCounted = 200_000
)

// Note counts an access: a token issued, or a userinfo or introspection response. The user is empty if
// there is none. It ignores texts that cannot be ids, since we could never write them.
func (a *Activity) Note(clientID, userID string) {
	if !id.Foreign(clientID) {
		return
	}
	now := a.Store.now()
	key := clientDay{clientID, dayOf(now)}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending == nil {
		a.pending = map[clientDay]*tally{}
	}
	t := a.pending[key]
	if t == nil {
		t = &tally{users: map[string]bool{}}
		a.pending[key] = t
	}
	t.total++
	t.last = max(t.last, now)
	if id.Foreign(userID) && !a.counted[key][userID] {
		t.users[userID] = true
	}
}

// Flush writes the counts since the last call. It keeps the ones that fail for the next call.
func (a *Activity) Flush(ctx context.Context) error {
	a.flushing.Lock()
	defer a.flushing.Unlock()
	if err := a.write(ctx); err != nil {
		return err
	}
	a.unwritten = batches(a.take())
	return a.write(ctx)
}

func (a *Activity) write(ctx context.Context) error {
	for len(a.unwritten) > 0 {
		if err := a.Store.addActivity(ctx, a.unwritten[0]); err != nil {
			return err
		}
		a.remember(a.unwritten[0])
		a.unwritten = a.unwritten[1:]
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

// remember notes that a batch's users were written. It forgets the day before, and everything once the
// map grows too large.
func (a *Activity) remember(b *batch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counted == nil || a.countedSize > maxCounted {
		a.counted = map[clientDay]map[string]bool{}
		a.countedSize = 0
	}
	for _, l := range b.lines {
		users := a.counted[l.clientDay]
		if users == nil {
			users = map[string]bool{}
			a.counted[l.clientDay] = users
			delete(a.counted, clientDay{l.clientID, l.day - 1})
		}
		for _, u := range l.users {
			users[u] = true
			a.countedSize++
		}
	}
}

// batches splits tallies into batches. It sorts the lines by client, so that replicas which flush at
// the same time wait for each other instead of deadlocking.
func batches(tallies map[clientDay]*tally) []*batch {
	var out []*batch
	size := maxBatch
	for _, l := range lines(tallies) {
		if size+1+len(l.users) > maxBatch {
			out = append(out, &batch{id: id.New("fls")})
			size = 0
		}
		last := out[len(out)-1]
		last.lines = append(last.lines, l)
		size += 1 + len(l.users)
	}
	return out
}

// lines splits tallies into lines with a bounded number of users. Each tally's first line has the
// total.
func lines(tallies map[clientDay]*tally) []line {
	var out []line
	for key, t := range tallies {
		l := line{clientDay: key, total: t.total, last: t.last}
		for u := range t.users {
			l.users = append(l.users, u)
			if len(l.users) == maxBatch-1 {
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

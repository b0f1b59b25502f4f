package eventlog

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/stamp"
	"steward/internal/waittest"
)

func TestMain(m *testing.M) {
	dbtest.OwnServer()
	os.Exit(m.Run())
}

var start = time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newKeys returns the keys of n rows of a webhook.
func newKeys(hook string, n int) (keys []string) {
	for range n {
		keys = append(keys, hook+id.Blob(start))
	}
	return keys
}

// commit appends events in a transaction of their own.
func commit(t testing.TB, d *db.DB, orgID string, at time.Time, keys []string) {
	t.Helper()
	must(t, d.Write(t.Context(), func(tx *db.Tx) error { return Append(tx, Batch{orgID, Receipt, stamp.Of(at), keys}) }))
}

// readAll reads the log from a position to its end, once all that was committed is settled.
func readAll(t testing.TB, d *db.DB, orgID, hook string, from Position) (keys []string) {
	t.Helper()
	newest, err := Newest(d.Read(t.Context()), orgID)
	must(t, err)
	waittest.True(t, "the events to be settled", func() bool {
		settled, err := IsSettled(d.Read(t.Context()), newest)
		must(t, err)
		return settled
	})
	for {
		page, err := After(d.Read(t.Context()), orgID, hook, from)
		must(t, err)
		for _, e := range page.Events {
			keys = append(keys, e.Key)
		}
		from = page.End
		if !page.More {
			return keys
		}
	}
}

func TestPositionsAreReadAsTheyWereWritten(t *testing.T) {
	for _, p := range []Position{
		{}, {At: stamp.Of(start)}, {Number: 1<<62 + 1, Key: newKeys(id.Blob(start), 1)[0], At: stamp.Of(start)},
	} {
		got, err := ParsePosition("header.Last-Event-ID", p.String())
		if got != p || err != nil {
			t.Errorf("%s is read as %+v, %v; it was %+v", p, got, err, p)
		}
	}
	for _, wrong := range []string{"1", "whrc_01jcq3v5w8z9d6y4k2m7n0p1rt", "AAAA", Position{}.String() + "A", "\x00"} {
		if _, err := ParsePosition("header.Last-Event-ID", wrong); errs.KindOf(err) != errs.Invalid {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// TestLargeTransactionsAreReadInPages appends transactions of several rows and webhooks, and reads
// them from each position in them.
func TestLargeTransactionsAreReadInPages(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		one, other := id.Blob(start), id.Blob(start)
		var want []string
		for _, n := range []int{1, 3*maxIDs + 7, 2} {
			keys := append(newKeys(one, n), newKeys(other, n)...)
			commit(t, d, "org_a", start, keys)
			want = append(want, slices.Sorted(slices.Values(keys))...)
		}
		commit(t, d, "org_b", start, newKeys(one, 3))
		if got := readAll(t, d, "org_a", "", Position{}); !slices.Equal(got, want) {
			t.Fatalf("%d events, want %d", len(got), len(want))
		}
		for from := (Position{}); ; {
			page, err := After(d.Read(t.Context()), "org_a", "", from)
			must(t, err)
			if len(page.Events) == 0 {
				break
			}
			from = page.Events[0].Position
			resumed, _, err := Resume(d.Read(t.Context()), "org_a", from)
			must(t, err)
			left := want[slices.Index(want, from.Key)+1:]
			if got := readAll(t, d, "org_a", "", resumed); !slices.Equal(got, left) {
				t.Fatalf("%d events after %v, want %d", len(got), from, len(left))
			}
		}
		for _, hook := range []string{one, other} {
			got := readAll(t, d, "org_a", hook, Position{})
			if len(got) != len(want)/2 || slices.ContainsFunc(got, func(key string) bool { return key[:26] != hook }) {
				t.Errorf("%d events of one of two webhooks, want %d", len(got), len(want)/2)
			}
		}
	})
}

func TestSeekFindsTheFirstEventOfATime(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		hook := id.Blob(start)
		q := d.Read(t.Context())
		p, err := Seek(q, "org_a", stamp.Of(start))
		if p != (Position{}) || err != nil {
			t.Errorf("in an empty log: %v, %v", p, err)
		}
		var keys []string
		for i := range 200 {
			at := start.Add(time.Duration(i) * time.Minute)
			if i%7 == 3 {
				at = at.Add(-30 * time.Second) // the clock of another replica
			}
			one := newKeys(hook, 1)
			commit(t, d, "org_a", at, one)
			commit(t, d, "org_b", start.Add(time.Duration(200-i)*time.Hour), newKeys(hook, 1))
			keys = append(keys, one...)
		}
		for since, first := range map[time.Duration]int{
			-time.Hour: 0, 0: 0, time.Second: 1, 5 * time.Minute: 5, 10*time.Minute - 30*time.Second: 10, 198 * time.Minute: 198,
			200 * time.Minute: 200,
		} {
			p, err := Seek(q, "org_a", stamp.Of(start.Add(since)))
			must(t, err)
			if got := readAll(t, d, "org_a", "", p); !slices.Equal(got, keys[first:]) {
				t.Errorf("since %v: %d events, want %d", since, len(got), 200-first)
			}
		}
	})
}

// TestPositionsThatAreGone resumes after events that were purged, and after some that a restored
// database never had.
func TestPositionsThatAreGone(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		hook := id.Blob(start)
		var keys []string
		for i := range 10 {
			one := newKeys(hook, 1)
			commit(t, d, "org_a", start.Add(time.Duration(i)*time.Hour), one)
			keys = append(keys, one...)
		}
		q := d.Read(t.Context())
		page, err := After(q, "org_a", "", Position{})
		must(t, err)
		purged, kept, last := page.Events[1].Position, page.Events[6].Position, page.Events[9].Position
		all, err := Purge(t.Context(), d, "org_a", stamp.Of(start.Add(4*time.Hour)), 10)
		if !all || err != nil {
			t.Fatalf("purge: %v, %v", all, err)
		}
		other := newKeys(hook, 1)[0]
		for name, test := range map[string]struct {
			from Position
			want []string
			lost bool
		}{
			"purged":                    {purged, keys[4:], true},
			"kept":                      {kept, keys[7:], false},
			"of another history":        {Position{Number: kept.Number, Key: other, At: kept.At}, keys[6:], false},
			"ahead, of another history": {Position{Number: last.Number + 1000, Key: other, At: kept.At}, keys[6:], false},
			"ahead and later":           {Position{Number: last.Number + 1000, Key: other, At: last.At + 1}, nil, false},
		} {
			p, lost, err := Resume(q, "org_a", test.from)
			must(t, err)
			if lost != test.lost {
				t.Errorf("%s: lost is %v", name, lost)
			}
			if got := readAll(t, d, "org_a", "", p); !slices.Equal(got, test.want) {
				t.Errorf("%s: %d events, want %d", name, len(got), len(test.want))
			}
		}
		for at, lost := range map[Position]bool{purged: true, kept: false} { // of a reader that is overtaken
			page, err := After(q, "org_a", "", at)
			must(t, err)
			if page.Lost != lost {
				t.Errorf("after %d: lost is %v", at.Number, page.Lost)
			}
		}
		all, err = Purge(t.Context(), d, "org_a", stamp.Of(start.Add(24*time.Hour)), 10)
		if !all || err != nil {
			t.Fatalf("purge: %v, %v", all, err)
		}
		p, lost, err := Resume(q, "org_a", last)
		must(t, err)
		if !lost {
			t.Error("all were purged, and nothing is lost")
		}
		more := newKeys(hook, 1)
		commit(t, d, "org_a", start, more) // a clock that went back
		if got := readAll(t, d, "org_a", "", p); !slices.Equal(got, more) {
			t.Errorf("after all were purged: %v", got)
		}
	})
}

// TestNumbersContinueOnAnotherServer has a log of a server whose transaction ids were much higher.
func TestNumbersContinueOnAnotherServer(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		hook := id.Blob(start)
		old := newKeys(hook, 1)
		commit(t, d, "org_a", start, old)
		if d.Dialect() == db.Postgres {
			must(t, d.Write(t.Context(), func(tx *db.Tx) error {
				_, err := tx.Exec(`UPDATE webhook_log SET number = number + 1000000000`)
				return err
			}))
		}
		before, err := Last(d.Read(t.Context()))
		must(t, err)
		must(t, d.ContinueNumbers(t.Context(), Last))
		offset := offsetOf(t, d)
		later := newKeys(hook, 1)
		commit(t, d, "org_a", start, later)
		if d.Dialect() == db.Postgres {
			must(t, d.ContinueNumbers(t.Context(), Last)) // by another replica
			if now := offsetOf(t, d); now != offset || now == 0 {
				t.Errorf("the offset was changed from %d to %d", offset, now)
			}
		}
		commit(t, d, "org_b", start, newKeys(hook, 1))
		if got, want := readAll(t, d, "org_a", "", Position{}), append(old, later...); !slices.Equal(got, want) {
			t.Errorf("the order is %v, want %v", got, want)
		}
		after, err := Last(d.Read(t.Context()))
		must(t, err)
		if after <= before {
			t.Errorf("the last number is %d after %d", after, before)
		}
		orgIDs, err := Organizations(d.Read(t.Context()), "")
		if !slices.Equal(orgIDs, []string{"org_a", "org_b"}) || err != nil {
			t.Errorf("organizations %v, %v", orgIDs, err)
		}
	})
}

func offsetOf(t *testing.T, d *db.DB) (n int64) {
	t.Helper()
	must(t, d.Read(t.Context()).Row(`SELECT n FROM commit_numbers`).Scan(&n))
	return n
}

var errRollback = errors.New("rolled back")

// TestRolledBackEventsAreNeverShown also checks that the number of a rolled back transaction does
// not hide the next one.
func TestRolledBackEventsAreNeverShown(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		hook := id.Blob(start)
		var want []string
		for i := range 20 {
			keys := newKeys(hook, 2)
			err := d.Write(t.Context(), func(tx *db.Tx) error {
				err := Append(tx, Batch{"org_a", Delivery, stamp.Of(start), keys})
				if err == nil && i%2 == 0 {
					return errRollback
				}
				return err
			})
			if i%2 == 0 {
				if !errors.Is(err, errRollback) {
					t.Fatal(err)
				}
				continue
			}
			must(t, err)
			want = append(want, keys...)
		}
		if got := readAll(t, d, "org_a", "", Position{}); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d events, want %d", len(got), len(want))
		}
	})
}

// TestLagIsTheAgeOfWhatWaitsForAnOpenTransaction opens a transaction of another application in another database of the server.
func TestLagIsTheAgeOfWhatWaitsForAnOpenTransaction(t *testing.T) {
	d := dbtest.Open(t, db.Postgres)
	hook, now := id.Blob(start), stamp.Of(start.Add(time.Minute))
	lags := func() [3]time.Duration {
		t.Helper()
		one, err := Lag(d.Read(t.Context()), "org_a", now)
		must(t, err)
		other, err := Lag(d.Read(t.Context()), "org_b", now)
		must(t, err)
		longest, err := MaxLag(d.Read(t.Context()), now)
		must(t, err)
		return [3]time.Duration{one, other, longest}
	}
	if got := lags(); got != [3]time.Duration{} {
		t.Errorf("without events it is %v", got)
	}
	end := dbtest.OpenTransaction(t, dbtest.Postgres(t))
	commit(t, d, "org_a", start, newKeys(hook, 1))
	commit(t, d, "org_a", start.Add(20*time.Second), newKeys(hook, 1))
	commit(t, d, "org_b", start.Add(30*time.Second), newKeys(hook, 1))
	if got, want := lags(), [3]time.Duration{time.Minute, 30 * time.Second, time.Minute}; got != want {
		t.Errorf("while it is open it is %v, want %v", got, want)
	}
	end()
	waittest.True(t, "all events to be settled", func() bool { return lags() == [3]time.Duration{} })
}

func TestSQLiteHasNoLag(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	commit(t, d, "org_a", start, newKeys(id.Blob(start), 1))
	lag, err := MaxLag(d.Read(t.Context()), stamp.Of(start.Add(time.Minute)))
	if err != nil || lag != 0 {
		t.Errorf("it is %v, %v", lag, err)
	}
}

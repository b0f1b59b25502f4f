package thread

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/page"
)

// large is a JSON text of n bytes.
func large(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }

func TestThreadListOmitsUserDataOver64KiB(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		put(t, s, whole, "none", "p", nil, "")
		put(t, s, whole, "fits", "p", text(large(MaxListed)), "")
		put(t, s, whole, "over", "p", text(large(MaxListed+1)), "")
		result, err := s.List(t.Context(), whole, Filter{Ascending: true}, page.Paging{Limit: 10})
		must(t, err)
		none, fits, over := result.Items[0], result.Items[1], result.Items[2]
		if none.UserData != nil || none.UserDataOmitted {
			t.Error("a thread without user_data is listed as if it had one")
		}
		if fits.UserData == nil || *fits.UserData != large(MaxListed) || fits.UserDataOmitted {
			t.Error("a user_data of 64 KiB is not listed")
		}
		if over.UserData != nil || !over.UserDataOmitted {
			t.Error("a user_data over 64 KiB is listed, or not marked as omitted")
		}
		got, err := s.Get(t.Context(), whole, "over")
		must(t, err)
		if got.UserData == nil || got.UserDataOmitted {
			t.Error("the thread itself lacks its user_data")
		}
	})
}

func TestSessionListOmitsUserDataOver64KiB(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		for i, size := range []int{MaxListed, MaxListed + 1} {
			end := completionOf(fmt.Sprint("s", i), 200)
			end.UserData = text(strings.Repeat("x", size))
			_, err := s.Complete(t.Context(), whole, end)
			must(t, err)
		}
		result, err := s.Sessions(t.Context(), org, SessionFilter{}, page.Paging{Limit: 10})
		must(t, err)
		fits, over := result.Items[1], result.Items[0]
		if fits.UserData == nil || fits.UserDataOmitted || over.UserData != nil || !over.UserDataOmitted {
			t.Error("a list must show 64 KiB of user data and omit more")
		}
		got, err := s.Session(t.Context(), whole, "s1")
		must(t, err)
		if got.UserData == nil || len(*got.UserData) != MaxListed+1 {
			t.Error("the session itself lacks its user data")
		}
	})
}

// TestThreadPageIsBoundedInBytes lists more user_data than page.MaxBytes: every row is on the page,
// the first ones with their user_data, and the next page follows the last row.
func TestThreadPageIsBoundedInBytes(t *testing.T) {
	const fit = page.MaxBytes / MaxListed
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		for i := range fit + 5 {
			put(t, s, whole, fmt.Sprint("t", i), "p", text(large(MaxListed)), `{"k":1}`)
		}
		put(t, s, whole, "empty", "p", nil, "")
		keys, err := parseFilter(`{"k":1}`)
		must(t, err)
		for _, f := range []Filter{{Ascending: true}, {Ascending: true, Keys: keys}} {
			result, err := s.List(t.Context(), whole, f, page.Paging{Limit: fit + 3})
			must(t, err)
			if len(result.Items) != fit+3 {
				t.Fatalf("the page has %d threads, want %d", len(result.Items), fit+3)
			}
			for i, item := range result.Items {
				if (item.UserData != nil) != (i < fit) || item.UserDataOmitted != (i >= fit) || item.Metadata == nil {
					t.Fatalf("thread %d: user_data present %v, omitted %v", i, item.UserData != nil, item.UserDataOmitted)
				}
			}
			text, err := json.Marshal(result)
			must(t, err)
			if len(text) > page.MaxBytes+1<<20 {
				t.Errorf("the page has %d bytes", len(text))
			}
			rest, err := s.List(t.Context(), whole, f, page.Paging{Limit: 2, Cursor: result.Next})
			must(t, err)
			if len(rest.Items) != 2 || rest.Items[0].UserData == nil {
				t.Errorf("the next page has %d threads, or lacks the user_data of its first", len(rest.Items))
			}
		}
		all, err := s.List(t.Context(), whole, Filter{Ascending: true}, page.Paging{Limit: 1000})
		must(t, err)
		if last := all.Items[len(all.Items)-1]; last.ID != "empty" || last.UserDataOmitted {
			t.Errorf("the last thread is %s, user_data omitted %v", last.ID, last.UserDataOmitted)
		}
	})
}

func TestThreadPageOmitsMetadataBeyondItsBytes(t *testing.T) {
	const fit = page.MaxBytes / MaxText
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		for i := range fit + 2 {
			put(t, s, whole, fmt.Sprint(i), "p", nil, `{"a":`+large(MaxText-6)+`}`)
		}
		result, err := s.List(t.Context(), whole, Filter{}, page.Paging{Limit: 1000})
		must(t, err)
		if len(result.Items) != fit+2 {
			t.Fatalf("the page has %d threads, want %d", len(result.Items), fit+2)
		}
		for i, item := range result.Items {
			if (item.Metadata != nil) != (i < fit) || item.MetadataOmitted != (i >= fit) {
				t.Errorf("thread %d: metadata present %v, omitted %v", i, item.Metadata != nil, item.MetadataOmitted)
			}
		}
	})
}

func TestSessionPageIsBoundedInBytes(t *testing.T) {
	const fit = page.MaxBytes / MaxListed
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newStore(t, d)
		for i := range fit + 3 {
			end := completionOf(fmt.Sprint("s", i), 200)
			end.UserData = text(strings.Repeat("x", MaxListed))
			_, err := s.Complete(t.Context(), whole, end)
			must(t, err)
		}
		result, err := s.Sessions(t.Context(), org, SessionFilter{}, page.Paging{Limit: 1000})
		must(t, err)
		if len(result.Items) != fit+3 || result.Total != fit+3 {
			t.Fatalf("the page has %d sessions of %d, want %d", len(result.Items), result.Total, fit+3)
		}
		for i, item := range result.Items {
			if (item.UserData != nil) != (i < fit) || item.UserDataOmitted != (i >= fit) {
				t.Errorf("session %d: user data present %v, omitted %v", i, item.UserData != nil, item.UserDataOmitted)
			}
		}
		text, err := json.Marshal(result.Items[fit])
		must(t, err)
		if !strings.Contains(string(text), `"userData":null`) || !strings.Contains(string(text), `"user_data_omitted":true`) {
			t.Errorf("listed as %s", text)
		}
	})
}

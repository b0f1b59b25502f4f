package db_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/db"
)

func TestCacheReadsOnce(t *testing.T) {
	var c db.Cache[string, int]
	reads := 0
	load := func() (int, error) { reads++; return reads, nil }
	for range 3 {
		if got, err := c.Get("a", load); got != 1 || err != nil {
			t.Fatalf("got %d, %v", got, err)
		}
	}
	c.Forget()
	if got, _ := c.Get("a", load); got != 2 {
		t.Fatalf("after Forget: got %d", got)
	}
}

func TestCacheKeepsNoErrors(t *testing.T) {
	var c db.Cache[string, int]
	broken := errors.New("broken")
	if _, err := c.Get("a", func() (int, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	if got, err := c.Get("a", func() (int, error) { return 7, nil }); got != 7 || err != nil {
		t.Fatalf("got %d, %v", got, err)
	}
}

func TestCacheDropsWhatWasReadBeforeForget(t *testing.T) {
	var c db.Cache[string, string]
	_, _ = c.Get("a", func() (string, error) {
		c.Forget() // the change commits while the old row is on its way
		return "old", nil
	})
	if got, _ := c.Get("a", func() (string, error) { return "new", nil }); got != "new" {
		t.Fatalf("got %q", got)
	}
}

func TestCacheIsBoundedInSizeAndAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := db.Cache[int, int]{Max: 2}
		reads := 0
		get := func(k int) {
			_, _ = c.GetWithin(time.Minute, k, func() (int, error) { reads++; return k, nil })
		}
		get(1)
		get(2)
		get(3) // one too many: starts anew
		get(1)
		if reads != 4 {
			t.Fatalf("%d reads, want 4", reads)
		}
		time.Sleep(2 * time.Minute)
		get(1)
		if reads != 5 {
			t.Fatalf("%d reads after the age, want 5", reads)
		}
	})
}

package page_test

import (
	"testing"
	"time"

	"steward/internal/page"
)

func TestCountsExpireAfterAMinute(t *testing.T) {
	now := time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)
	var cache page.CountCache[string]
	cache.Keep("exact", 7, now)
	cache.Note("many", now)
	if n, ok := cache.Size("exact", now.Add(59*time.Second)); n != 7 || !ok {
		t.Errorf("got %d, %v; want 7", n, ok)
	}
	if cache.Has("exact", now) || !cache.Has("many", now) || cache.Has("other", now) {
		t.Error("Has is not true for the filter with too many matches alone")
	}
	if _, ok := cache.Size("exact", now.Add(time.Minute)); ok || cache.Has("many", now.Add(time.Minute)) {
		t.Error("a count is used after a minute")
	}
}

func TestBudgetIsExceededByOneFieldAtMost(t *testing.T) {
	var budget page.Budget
	for range 4 {
		if !budget.Take(page.MaxBytes/4 - 1) {
			t.Fatal("refused before the budget is reached")
		}
	}
	if !budget.Take(page.MaxBytes) || budget.Take(0) || budget.Take(1) {
		t.Error("fields after the budget is reached are not all refused")
	}
}

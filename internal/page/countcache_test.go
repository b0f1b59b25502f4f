package page_test

import (
	"testing"
	"time"

	"steward/internal/page"
)

func TestCountsExpireAfterAMinute(t *testing.T) {
	now := time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)
	var cache page.CountCache
	cache.SetLarge("many", now)
	if !cache.IsLarge("many", now.Add(59*time.Second)) || cache.IsLarge("other", now) {
		t.Error("the filter with too many matches alone must be large")
	}
	if cache.IsLarge("many", now.Add(time.Minute)) {
		t.Error("an entry is used after a minute")
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

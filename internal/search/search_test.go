package search

import (
	"strconv"
	"testing"
)

// TestMergeTakesEachTypeInTurn has one type with more results than fit.
func TestMergeTakesEachTypeInTurn(t *testing.T) {
	var many []Result
	for i := range maxResults {
		many = append(many, Result{Type: "webhook", ID: strconv.Itoa(i)})
	}
	got := merge([][]Result{many, {{Type: "eval", ID: "e"}}, nil, {{Type: "thread", ID: "wanted"}}}, "wanted")
	if len(got) != maxResults || got[0].Type != "thread" || got[1].Type != "webhook" || got[2].Type != "eval" || got[3].Type != "webhook" {
		t.Errorf("%d: %v", len(got), got)
	}
	if none := merge(nil, "x"); none == nil || len(none) != 0 {
		t.Errorf("%v", none)
	}
}

package page_test

import (
	"testing"

	"steward/internal/errs"
	"steward/internal/page"
)

type row struct{ version int64 }

func (r row) ETag() string { return page.ETag(r.version) }

func TestConditionsCompareETags(t *testing.T) {
	for header, want := range map[string]struct{ ifMatch, ifNoneMatch bool }{
		"":                {true, false},
		"*":               {true, true},
		`"7"`:             {true, true},
		`"6"`:             {false, false},
		`"6", "7"`:        {true, true},
		`"6","77"`:        {false, false},
		`W/"7"`:           {false, true},
		`"1", W/"7"`:      {false, true},
		`7`:               {false, false},
		`"7`:              {false, false},
		`"W/7"`:           {false, false},
		` "7" `:           {true, true},
		`"6", "8", "777"`: {false, false},
	} {
		err := page.IfMatch{IfMatch: header}.Check(row{7})
		if (err == nil) != want.ifMatch || err != nil && errs.KindOf(err) != errs.PreconditionFailed {
			t.Errorf("If-Match: %s: %v", header, err)
		}
		if got := page.NoneMatch(header, row{7}.ETag()); got != want.ifNoneMatch {
			t.Errorf("If-None-Match: %s: %v, want %v", header, got, want.ifNoneMatch)
		}
	}
}

package noun

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/cli/exit"
)

func TestTimesAreDurationsOrDates(t *testing.T) {
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "2d": 48 * time.Hour, "1d12h": 36 * time.Hour} {
		at, err := PastTime(text)
		if err != nil || (time.Since(at)-want).Abs() > time.Minute {
			t.Errorf("%s: %v, %v", text, at, err)
		}
	}
	for text, want := range map[string]string{
		"2026-11-15T08:30:00+01:00": "2026-11-15T07:30:00.000Z", "2026-11-15 08:30:00": "2026-11-15T08:30:00.000Z",
		"2026-11-15": "2026-11-15T00:00:00.000Z",
	} {
		if got, err := moment(text, -1); got != want || err != nil {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "yesterday", "d", "-d", "99999d"} {
		if got, err := moment(text, -1); err == nil {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestFieldsBecomeMembers(t *testing.T) {
	members := map[string]any{}
	for _, f := range []struct {
		Field
		texts []string
	}{
		{Field{Path: "name"}, []string{"x"}},
		{Field{Path: "cleared"}, []string{""}},
		{Field{Path: "config.url"}, []string{"u"}},
		{Field{Path: "config.retries", Kind: Number}, []string{"3"}},
		{Field{Path: "config.headers", Kind: Pairs}, []string{"A=b=c", "D="}},
		{Field{Path: "ttl", Kind: Seconds}, []string{"1d"}},
		{Field{Path: "scopes", Kind: List}, []string{"a", "", "b"}},
		{Field{Path: "public", Kind: Boolean}, []string{"false"}},
		{Field{Path: "cors", Kind: Object}, []string{`{"a":[1]}`}},
	} {
		if err := f.Set(members, f.texts); err != nil {
			t.Errorf("%s: %v", f.Path, err)
		}
	}
	want := map[string]any{
		"name": "x", "cleared": nil, "ttl": int64(86400), "scopes": []string{"a", "b"}, "public": false,
		"config": map[string]any{"url": "u", "retries": int64(3), "headers": map[string]any{"A": "b=c", "D": ""}},
		"cors":   map[string]any{"a": []any{1.0}},
	}
	if diff := cmp.Diff(want, members); diff != "" {
		t.Error(diff)
	}
	for _, f := range []Field{{Kind: Number}, {Kind: Pairs}, {Kind: Object}, {Kind: Past}, {Kind: Seconds}, {Values: []string{"y"}}} {
		if err := f.Set(members, []string{"wrong"}); exit.Code(err) != exit.Usage {
			t.Errorf("kind %d: %v", f.Kind, err)
		}
	}
}

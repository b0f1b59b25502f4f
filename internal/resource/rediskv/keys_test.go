package rediskv_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"steward/internal/errs"
	"steward/internal/resource"
	"steward/internal/resource/rediskv"
	"steward/internal/resource/rediskv/redistest"
)

// list reads all pages and returns the keys, sorted, and the number of pages.
func list(t *testing.T, e *rediskv.Engine, p *resource.Provisioned, prefix string, limit int) (keys []string, pages int) {
	t.Helper()
	seen := map[string]bool{}
	for cursor := ""; ; {
		page, err := e.Keys(t.Context(), p, resource.KeyQuery{Prefix: prefix, Cursor: cursor, Limit: limit})
		must(t, err)
		pages++
		if len(page.Keys) > limit {
			t.Fatalf("a page has %d keys, limit %d", len(page.Keys), limit)
		}
		for _, key := range page.Keys {
			seen[key.Key] = true
		}
		if page.Next == "" {
			return slices.Sorted(maps.Keys(seen)), pages
		}
		cursor = page.Next
	}
}

func TestKeysArePagedWholly(t *testing.T) {
	server := redistest.Start(t)
	e := open(t, server.URL)
	p := create(t, e)
	other := create(t, e)
	var want []string
	pipe := dial(t, server.URL).Pipeline()
	for i := range 700 {
		key := fmt.Sprintf("%s:k%04d", p.ID, i)
		want = append(want, key)
		pipe.Set(t.Context(), key, "1", 0)
	}
	for i := range 5000 {
		pipe.Set(t.Context(), fmt.Sprintf("%s:k%04d", other.ID, i), "1", 0)
	}
	_, err := pipe.Exec(t.Context())
	must(t, err)
	for _, limit := range []int{1, 2, 7, 100, 699, 700, 701, 5000} {
		got, pages := list(t, e, p, "", limit)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
		if limit >= 700 && pages != 1 {
			t.Errorf("limit %d: %d pages", limit, pages)
		}
	}
}

func TestKeysTakesThePrefixLiterally(t *testing.T) {
	server := redistest.Start(t)
	e := open(t, server.URL)
	p := create(t, e)
	c := dial(t, e.Connection(p).URL)
	own := p.ID + ":"
	for _, key := range []string{"a*b", "axb", "a?b", "[a]", "a", `\d`, "é\nx", ""} {
		must(t, c.Set(t.Context(), own+key, "1", 0).Err())
	}
	for prefix, want := range map[string][]string{
		"a*":      {own + "a*b"},
		"a?":      {own + "a?b"},
		"[a]":     {own + "[a]"},
		`\`:       {own + `\d`},
		"é\n":     {own + "é\nx"},
		own + "a": {own + "a", own + "a*b", own + "a?b", own + "axb"},
		own + "*": nil,
	} {
		got, _ := list(t, e, p, prefix, 100)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", prefix, diff)
		}
	}
}

func TestKeysHaveTypeAndTTL(t *testing.T) {
	server := redistest.Start(t)
	e := open(t, server.URL)
	p := create(t, e)
	c := dial(t, e.Connection(p).URL)
	own := p.ID + ":"
	ctx := t.Context()
	must(t, c.Set(ctx, own+"text", "1", time.Hour).Err())
	must(t, c.RPush(ctx, own+"list", "1").Err())
	must(t, c.XAdd(ctx, &redis.XAddArgs{Stream: own + "stream", Values: []string{"a", "1"}}).Err())
	page, err := e.Keys(ctx, p, resource.KeyQuery{Limit: 10})
	must(t, err)
	types := map[string]string{}
	for _, key := range page.Keys {
		types[key.Key] = key.Type
		if expires := key.TTL != nil; expires != (key.Key == own+"text") {
			t.Errorf("%s: TTL %v", key.Key, key.TTL)
		}
		if key.TTL != nil && (*key.TTL <= 0 || *key.TTL > time.Hour.Milliseconds()) {
			t.Errorf("TTL %d", *key.TTL)
		}
	}
	if diff := cmp.Diff(map[string]string{own + "text": "string", own + "list": "list", own + "stream": "stream"}, types); diff != "" {
		t.Error(diff)
	}
}

func TestKeysOfAnEmptyStore(t *testing.T) {
	e := open(t, redistest.Start(t).URL)
	page, err := e.Keys(t.Context(), create(t, e), resource.KeyQuery{Limit: 10})
	must(t, err)
	if page.Keys == nil || len(page.Keys) != 0 || page.Next != "" {
		t.Errorf("%+v", page)
	}
}

func TestKeysRefusesOtherCursors(t *testing.T) {
	e := open(t, redistest.Start(t).URL)
	p := create(t, e)
	for _, cursor := range []string{"x", "-1", "1-x", "1--1", "99999999999999999999999"} {
		if _, err := e.Keys(t.Context(), p, resource.KeyQuery{Cursor: cursor, Limit: 10}); errs.KindOf(err) != errs.Invalid {
			t.Errorf("%s: %v", cursor, err)
		}
	}
}

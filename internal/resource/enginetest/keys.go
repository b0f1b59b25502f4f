package enginetest

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"steward/internal/resource"
)

// RunKeys tests how key-value engines list keys and their values.
func RunKeys(t *testing.T, start func(t *testing.T, rows *Rows) Fixture) {
	rows := NewRows()
	s := &suite{t: t, rows: rows, Fixture: start(t, rows)}
	p := s.created()
	s.fillStore(p)
	for name, test := range map[string]func(s *suite, p *resource.Provisioned){
		"ValuesAreShownOnRequest": valuesOnRequest,
		"ValuesInPages":           valuesInPages,
		"KeysByType":              keysByType,
		"ItemsOfEachType":         itemsOfEachType,
		"LargeValuesInPages":      largeValuesInPages,
		"LongTextsAreCut":         longTextsAreCut,
		"SetAndRemoveItems":       setAndRemoveItems,
		"Expiry":                  expiry,
		"RefusedChanges":          refusedChanges,
	} {
		t.Run(name, func(t *testing.T) {
			test(&suite{t: t, rows: rows, Fixture: s.Fixture}, p)
		})
	}
}

// euros is longer than resource.MaxPreview bytes, and that limit falls into the middle of a character.
var euros = strings.Repeat("€", resource.MaxPreview)

// fillStore sets a key for each type of value.
func (s *suite) fillStore(p *resource.Provisioned) {
	s.t.Helper()
	c := s.client(p)
	ctx := context.Background()
	own := s.Engine.Connection(p).Env["REDIS_KEY_PREFIX"]
	for key, value := range map[string]string{
		"text": "héllo\x00", "empty": "", "bytes": "\xff\xfe", "long": euros, "exact": strings.Repeat("x", resource.MaxPreview),
		"long bytes": strings.Repeat("\xff", resource.MaxPreview+1),
	} {
		s.must(c.Set(ctx, own+key, value, time.Hour).Err())
	}
	s.must(c.HSet(ctx, own+"hash", "a", "1", "b", "2").Err())
	s.must(c.RPush(ctx, own+"list", "a", "b", "a").Err())
	s.must(c.SAdd(ctx, own+"set", "a").Err())
	s.must(c.ZAdd(ctx, own+"zset", redis.Z{Member: "a"}, redis.Z{Member: "b"}).Err())
}

func (s *suite) client(p *resource.Provisioned) redis.UniversalClient {
	s.t.Helper()
	c := s.redis(s.Engine.Connection(p))
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// redis returns a client for a connection that an engine has described.
func (s *suite) redis(c resource.Connection) redis.UniversalClient {
	s.t.Helper()
	if s.Redis != nil {
		return s.Redis(c)
	}
	o, err := redis.ParseURL(c.Env["REDIS_URL"])
	s.must(err)
	return redis.NewClient(o)
}

// shown is a key's value as a list shows it.
type shown struct {
	Type      string
	Value     any
	Size      int64
	Truncated bool
}

func base64Of(text string) map[string]string { return map[string]string{"base64": text} }

var shownValues = map[string]shown{
	"text":       {"string", "héllo\x00", 7, false},
	"empty":      {"string", "", 0, false},
	"bytes":      {"string", base64Of("//4="), 2, false},
	"long":       {"string", strings.Repeat("€", resource.MaxPreview/3), 3 * resource.MaxPreview, true},
	"exact":      {"string", strings.Repeat("x", resource.MaxPreview), resource.MaxPreview, false},
	"long bytes": {"string", base64Of(strings.Repeat("/", 1365) + "w=="), resource.MaxPreview + 1, true},
	"hash":       {"hash", nil, 2, false},
	"list":       {"list", nil, 3, false},
	"set":        {"set", nil, 1, false},
	"zset":       {"zset", nil, 2, false},
}

// keys reads all pages and returns the shown values by key, without the store's own prefix.
func (s *suite) keys(p *resource.Provisioned, q resource.KeyQuery) map[string]shown {
	s.t.Helper()
	own := s.Engine.Connection(p).Env["REDIS_KEY_PREFIX"]
	got := map[string]shown{}
	for {
		page, err := s.Engine.(resource.Stores).Keys(s.t.Context(), p, q)
		s.must(err)
		for _, k := range page.Keys {
			if (k.Size != nil) != q.Values || (k.TTL != nil) != (k.Type == "string") {
				s.t.Errorf("%s: size %v, ttl %v", k.Key, k.Size, k.TTL)
			}
			v := shown{Type: k.Type, Value: k.Value, Truncated: k.Truncated}
			if k.Size != nil {
				v.Size = *k.Size
			}
			got[strings.TrimPrefix(k.Key, own)] = v
		}
		if page.Next == "" {
			return got
		}
		q.Cursor = page.Next
	}
}

func valuesOnRequest(s *suite, p *resource.Provisioned) {
	if diff := cmp.Diff(shownValues, s.keys(p, resource.KeyQuery{Limit: 100, Values: true})); diff != "" {
		s.t.Error(diff)
	}
	without := maps.Clone(shownValues)
	for key, v := range without {
		without[key] = shown{Type: v.Type}
	}
	if diff := cmp.Diff(without, s.keys(p, resource.KeyQuery{Limit: 100})); diff != "" {
		s.t.Error(diff)
	}
}

func valuesInPages(s *suite, p *resource.Provisioned) {
	if diff := cmp.Diff(shownValues, s.keys(p, resource.KeyQuery{Limit: 3, Values: true})); diff != "" {
		s.t.Error(diff)
	}
	got := s.keys(p, resource.KeyQuery{Prefix: "long", Limit: 1, Values: true})
	if len(got) != 2 || !got["long"].Truncated {
		s.t.Errorf("by prefix: %v", got)
	}
}

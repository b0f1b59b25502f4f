package enginetest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"steward/internal/errs"
	"steward/internal/resource"
)

func (s *suite) stores() resource.Stores { return s.Engine.(resource.Stores) }

// put sets one item in a value.
func (s *suite) put(p *resource.Provisioned, key, kind string, item resource.Item) resource.Value {
	s.t.Helper()
	v, err := resource.SetValue(s.t.Context(), s.stores(), p, key, resource.NewValue{Type: kind, Item: &item})
	s.must(err)
	return v
}

func (s *suite) value(p *resource.Provisioned, q resource.ValueQuery) resource.Value {
	s.t.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	v, err := resource.ReadValue(s.t.Context(), s.stores(), p, q)
	s.must(err)
	return v
}

func (s *suite) remove(p *resource.Provisioned, key, item string) {
	s.t.Helper()
	s.must(resource.RemoveValue(s.t.Context(), s.stores(), p, key, &item))
}

// equalValues fails the test unless the values are equal.
func (s *suite) equalValues(what string, got, want any) {
	s.t.Helper()
	texts := cmp.Comparer(func(a, b resource.Text) bool { return a.String() == b.String() })
	unset := cmpopts.IgnoreFields(resource.Item{}, "_")
	if diff := cmp.Diff(want, got, texts, unset, cmpopts.IgnoreFields(resource.Value{}, "_")); diff != "" {
		s.t.Errorf("%s: %s", what, diff)
	}
}

func keysByType(s *suite, p *resource.Provisioned) {
	for kind, want := range map[string]int{"string": 6, "hash": 1, "list": 1, "set": 1, "zset": 1, "stream": 0} {
		if got := s.keys(p, resource.KeyQuery{Limit: 2, Type: kind, Values: true}); len(got) != want {
			s.t.Errorf("%d keys of type %s, want %d: %v", len(got), kind, want, got)
		}
	}
}

func element(index int64, text string) resource.Item {
	return resource.Item{Index: &index, Value: resource.TextOf(text)}
}

func field(name, value string) resource.Item {
	return resource.Item{Field: resource.TextOf(name), Value: resource.TextOf(value)}
}

func member(text string) resource.Item { return resource.Item{Member: resource.TextOf(text)} }

func scored(text, score string) resource.Item {
	return resource.Item{Member: resource.TextOf(text), Score: score}
}

func streamed(id string, texts ...string) resource.Item {
	item := resource.Item{ID: id}
	for i := 0; i < len(texts); i += 2 {
		item.Fields = append(item.Fields, resource.StreamField{Field: *resource.TextOf(texts[i]), Value: *resource.TextOf(texts[i+1])})
	}
	return item
}

func itemsOfEachType(s *suite, _ *resource.Provisioned) {
	p := s.created()
	for kind, items := range map[string][]resource.Item{
		"hash":   {field("a/b ü", "1"), field("", "")},
		"list":   {element(0, "a"), element(1, "b"), element(2, "a")},
		"set":    {member("\xff\x00")},
		"zset":   {scored("low", "-inf"), scored("mid", "1.5"), scored("high", "20")},
		"stream": {streamed("1-1", "f", "v", "f", "\xfe"), streamed("1-2", "g", "")},
	} {
		key := "a/" + kind + " \xff"
		for _, item := range items {
			item.Index = nil // appended
			s.put(p, key, kind, item)
		}
		s.equalValues(kind, s.value(p, resource.ValueQuery{Key: key}),
			resource.Value{Type: kind, Size: int64(len(items)), Items: items})
	}
	text := "héllo\r\n\x00"
	s.put(p, "text", "string", resource.Item{Value: &resource.Text{}})
	s.put(p, "text", "string", resource.Item{Value: resource.TextOf(text)})
	s.equalValues("string", s.value(p, resource.ValueQuery{Key: "text"}), resource.Value{
		Type: "string", Size: int64(len(text)), Value: resource.TextOf(text), Items: []resource.Item{},
	})
	if got := s.put(p, "a/stream \xff", "stream", streamed("", "f", "v")); len(got.Items) != 1 || got.Items[0].ID == "" {
		s.t.Errorf("an entry was added: %+v", got)
	}
}

// largeValuesInPages reads values that need several pages.
func largeValuesInPages(s *suite, _ *resource.Provisioned) {
	const many = 1500 // more than fits on a page or into Redis's compact encodings
	p := s.created()
	client := s.client(p)
	own := s.Engine.Connection(p).Env["REDIS_KEY_PREFIX"]
	pipe := client.Pipeline()
	for i := range many {
		n := strconv.Itoa(i)
		pipe.Do(s.t.Context(), "RPUSH", own+"list", n)
		pipe.Do(s.t.Context(), "HSET", own+"hash", n, n)
		pipe.Do(s.t.Context(), "SADD", own+"set", "m"+n)
		pipe.Do(s.t.Context(), "ZADD", own+"zset", n, n)
		pipe.Do(s.t.Context(), "XADD", own+"stream", n+"-1", "f", n)
	}
	_, err := pipe.Exec(s.t.Context())
	s.must(err)
	s.must(client.SAdd(s.t.Context(), own+"numbers", fmt.Sprint(many), "1", "2", "3", "4", "5").Err())
	for key, size := range map[string]int{"list": many, "hash": many, "set": many, "zset": many, "stream": many, "numbers": 6} {
		seen := map[string]bool{}
		for _, item := range s.allItems(p, key, size/4) {
			seen[item.Field.String()+item.Member.String()+item.ID+item.Value.String()] = true
		}
		if len(seen) != size {
			s.t.Errorf("%d items of a %s, want %d", len(seen), key, size)
		}
	}
	long := strings.Repeat("€", 300_000)
	s.put(p, "long", "string", resource.Item{Value: resource.TextOf(long)})
	var got strings.Builder
	for q := (resource.ValueQuery{Key: "long"}); ; {
		v := s.value(p, q)
		got.WriteString(v.Value.String())
		if v.Next == "" {
			break
		}
		q.Cursor = v.Next
	}
	if got.String() != long {
		s.t.Errorf("the parts of a string have %d bytes, want %d", got.Len(), len(long))
	}
}

// allItems reads a value page by page. No page may have more than limit items.
func (s *suite) allItems(p *resource.Provisioned, key string, limit int) (all []resource.Item) {
	s.t.Helper()
	for q := (resource.ValueQuery{Key: key, Limit: limit}); ; {
		v := s.value(p, q)
		if len(v.Items) > limit {
			s.t.Errorf("a page of %s has %d items, want %d at most", key, len(v.Items), limit)
		}
		all = append(all, v.Items...)
		if v.Next == "" {
			return all
		}
		q.Cursor = v.Next
	}
}

// longTextsAreCut reads items that are too large for a page.
func longTextsAreCut(s *suite, _ *resource.Provisioned) {
	p := s.created()
	long := strings.Repeat("€", 100_000)
	for i := range 80 {
		s.put(p, "list", "list", resource.Item{Value: resource.TextOf(long)})
		s.put(p, "hash", "hash", field(strconv.Itoa(i), long))
	}
	s.put(p, "stream", "stream", streamed("1-1", "a", long, "b", "c"))
	for key, want := range map[string]int{"list": 80, "hash": 80, "stream": 1} {
		first := s.value(p, resource.ValueQuery{Key: key})
		if want > 1 && (len(first.Items) == want || first.Next == "") {
			s.t.Errorf("a page of %s has all items", key)
		}
		all := s.allItems(p, key, 100)
		if len(all) != want {
			s.t.Errorf("%d items of %s, want %d", len(all), key, want)
		}
		for _, item := range all {
			text := item.Value.String()
			if item.Value == nil {
				text = item.Fields[0].Value.String()
			}
			if !item.Truncated || text == "" || strings.Trim(text, "€") != "" {
				s.t.Fatalf("%s: truncated %v, %d bytes", key, item.Truncated, len(text))
			}
		}
	}
}

func setAndRemoveItems(s *suite, _ *resource.Provisioned) {
	p := s.created()
	items := func(key string) []resource.Item { return s.value(p, resource.ValueQuery{Key: key}).Items }
	s.put(p, "h", "hash", field("a", "1"))
	s.put(p, "h", "hash", field("a", "2"))
	s.put(p, "h", "hash", field("b", "3"))
	s.remove(p, "h", "b")
	s.equalValues("hash", items("h"), []resource.Item{field("a", "2")})
	for _, text := range []string{"a", "b", "a", "c"} {
		s.put(p, "l", "list", resource.Item{Value: resource.TextOf(text)})
	}
	s.put(p, "l", "list", element(3, "d"))
	s.remove(p, "l", "2")
	s.equalValues("list", items("l"), []resource.Item{element(0, "a"), element(1, "b"), element(2, "d")})
	s.put(p, "z", "zset", scored("a", "1"))
	s.put(p, "z", "zset", scored("a", "2"))
	s.put(p, "z", "zset", scored("b", "1"))
	s.remove(p, "z", "b")
	s.equalValues("zset", items("z"), []resource.Item{scored("a", "2")})
	s.put(p, "x", "stream", streamed("1-1", "a", "b"))
	s.remove(p, "x", "1-1")
	s.equalValues("stream", items("x"), []resource.Item{})
	s.put(p, "s", "set", member("a"))
	s.remove(p, "s", "a")
	s.kind("a set without members", s.readError(p, "s"), errs.NotFound)
	s.must(resource.RemoveValue(s.t.Context(), s.stores(), p, "h", nil))
	s.kind("a key that was removed", s.readError(p, "h"), errs.NotFound)
	s.kind("remove it again", resource.RemoveValue(s.t.Context(), s.stores(), p, "h", nil), errs.NotFound)
}

func expiry(s *suite, _ *resource.Provisioned) {
	p := s.created()
	set := func(n resource.NewValue) *int64 {
		s.t.Helper()
		v, err := resource.SetValue(s.t.Context(), s.stores(), p, "k", n)
		s.must(err)
		return v.TTL
	}
	item := &resource.Item{Value: resource.TextOf("v")}
	if ttl := set(resource.NewValue{Type: "string", Item: item, TTL: new(int64(60_000))}); ttl == nil || *ttl < 1 || *ttl > 60_000 {
		s.t.Errorf("ttl %v", ttl)
	}
	if ttl := set(resource.NewValue{Type: "string", Item: item}); ttl == nil {
		s.t.Error("a key does not expire any more after it was set")
	}
	if ttl := set(resource.NewValue{TTL: new(int64)}); ttl != nil {
		s.t.Errorf("ttl %v of a key that does not expire", *ttl)
	}
	_, err := resource.SetValue(s.t.Context(), s.stores(), p, "none", resource.NewValue{TTL: new(int64(1))})
	s.kind("expire a key that does not exist", err, errs.NotFound)
}

func refusedChanges(s *suite, p *resource.Provisioned) {
	set := func(key, kind string, item resource.Item) error {
		_, err := resource.SetValue(s.t.Context(), s.stores(), p, key, resource.NewValue{Type: kind, Item: &item})
		return err
	}
	s.kind("field of a list", set("list", "hash", field("a", "b")), errs.Conflict)
	s.kind("element of a hash", set("hash", "list", element(0, "a")), errs.Conflict)
	s.kind("element behind the end", set("list", "list", element(9, "a")), errs.Invalid)
	s.kind("id", set("new", "stream", streamed("no id", "a", "b")), errs.Invalid)
	remove := func(key, item string) error {
		return resource.RemoveValue(s.t.Context(), s.stores(), p, key, &item)
	}
	s.kind("field that does not exist", remove("hash", "none"), errs.NotFound)
	s.kind("element that does not exist", remove("list", "9"), errs.NotFound)
	s.kind("element that is no number", remove("list", "a"), errs.Invalid)
	s.kind("item of a string", remove("text", "a"), errs.Invalid)
	_, err := resource.ReadValue(s.t.Context(), s.stores(), p, resource.ValueQuery{Key: "list", Cursor: "x", Limit: 1})
	s.kind("cursor", err, errs.Invalid)
}

// readError returns the error from reading a key.
func (s *suite) readError(p *resource.Provisioned, key string) error {
	_, err := resource.ReadValue(s.t.Context(), s.stores(), p, resource.ValueQuery{Key: key, Limit: 1})
	return err
}

func (s *suite) kind(what string, err error, want errs.Kind) {
	s.t.Helper()
	if got := errs.KindOf(err); got != want {
		s.t.Errorf("%s: %v, want %s", what, err, want)
	}
}

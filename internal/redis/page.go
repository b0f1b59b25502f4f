package redis

import (
	"container/heap"
	"slices"
	"strconv"
	"strings"
)

// KeyInfo describes a key in a page.
type KeyInfo struct {
	Key, Type string
	// Expires is the time to live in milliseconds; -1 if the key does not expire.
	Expires int64
	// Size is a string's length in bytes, or the number of elements in another value.
	Size int64
	// First is a string's beginning.
	First []byte
}

// Page is a page from a store's keys, in order.
type Page struct {
	Keys []KeyInfo
	// More reports whether there are keys after Last. The key Last may be gone by now.
	Last string
	More bool
}

// PageQuery selects a page.
type PageQuery struct {
	// Prefix selects keys that begin with it. From is the least key that the page may have. Type
	// selects keys by their value's type; "" means all.
	Prefix, From, Type string
	// Limit caps the keys in the page, and Preview the bytes from each string.
	Limit, Preview int
}

// matches reports whether a key belongs to the pages from From on.
func (q PageQuery) matches(e *entry) bool {
	return strings.HasPrefix(e.key, q.Prefix) && e.key >= q.From && (q.Type == "" || q.Type == kindNames[e.value.kind()])
}

// pageStep is how many keys we visit for a page at once. Commands run in between.
const pageStep = 2000

// Page returns the first keys that a query selects. It may miss keys that come or go meanwhile.
func (s *Store) Page(q PageQuery) (Page, error) {
	least := &leastKeys{}
	cursor := uint64(0)
	for done := false; !done; done = cursor == 0 {
		err := s.do(func() {
			now := s.now()
			cursor = s.keys.entries.Scan(cursor, &entry{}, pageStep, func(e *entry) {
				if q.matches(e) && !e.expired(now) {
					least.add(e.key, q.Limit+1)
				}
			})
		})
		if err != nil {
			return Page{}, err
		}
	}
	names := *least
	slices.Sort(names)
	var page Page
	if len(names) > q.Limit {
		names = names[:q.Limit]
		page.More = true
		page.Last = names[q.Limit-1]
	}
	err := s.do(func() {
		for _, key := range names {
			if info, ok := s.keyInfo(key, q.Preview); ok {
				page.Keys = append(page.Keys, info)
			}
		}
	})
	return page, err
}

// lengths has the commands that count a value's elements.
var lengths = [...]string{kindList: "llen", kindSet: "scard", kindZSet: "zcard", kindHash: "hlen", kindStream: "xlen"}

// keyInfo describes a key, unless it is gone.
func (s *Store) keyInfo(key string, preview int) (KeyInfo, bool) {
	now := s.now()
	e := s.keys.find(key)
	if e == nil || e.expired(now) {
		return KeyInfo{}, false
	}
	info := KeyInfo{Key: key, Type: kindNames[e.value.kind()], Expires: -1}
	if e.expires != 0 {
		info.Expires = e.expires - now
	}
	if v, ok := e.value.(*str); ok {
		info.Size = int64(len(v.b))
		info.First = slices.Clone(v.b[:min(len(v.b), preview)])
		return info, true
	}
	out := &reply{}
	cmd := s.table[lengths[e.value.kind()]]
	x := &call{Store: s, client: &Client{noTouch: true}, cmd: cmd, args: []string{cmd.name, key}, out: out, now: now, nested: true}
	if cmd.run(x) == nil {
		info.Size, _ = strconv.ParseInt(strings.TrimSpace(strings.TrimPrefix(string(out.b), ":")), 10, 64)
	}
	return info, true
}

// leastKeys keeps the least keys. It is a heap with its greatest key first.
type leastKeys []string

func (k leastKeys) Len() int           { return len(k) }
func (k leastKeys) Less(i, j int) bool { return k[i] > k[j] }
func (k leastKeys) Swap(i, j int)      { k[i], k[j] = k[j], k[i] }

// Push implements heap.Interface.
func (k *leastKeys) Push(key any) { *k = append(*k, key.(string)) }

// Pop implements heap.Interface.
func (k *leastKeys) Pop() any {
	last := len(*k) - 1
	key := (*k)[last]
	*k = (*k)[:last]
	return key
}

// add adds a key, and drops the greatest if there are more than limit.
func (k *leastKeys) add(key string, limit int) {
	if len(*k) == limit && key >= (*k)[0] {
		return
	}
	heap.Push(k, key)
	if len(*k) > limit {
		heap.Pop(k)
	}
}

package redis

import (
	"container/heap"
	"slices"
	"strconv"
	"strings"
)

// KeyInfo is what a page of keys says about one of them.
type KeyInfo struct {
	Key, Type string
	// Expires is in how many milliseconds the key expires; -1 if it does not.
	Expires int64
	// Size is the number of bytes of a string, or of elements of another value.
	Size int64
	// First is the beginning of a string.
	First []byte
}

// Page is a page of the keys of a store, in their order.
type Page struct {
	Keys []KeyInfo
	// More is whether there are keys behind Last, which may be gone.
	Last string
	More bool
}

// PageQuery selects a page of keys.
type PageQuery struct {
	// Prefix is what keys begin with, From the first that may be in the page, and Type that of the values, or ""
	// for all.
	Prefix, From, Type string
	// Limit is the maximum number of keys, and Preview that of bytes of strings.
	Limit, Preview int
}

// matches reports whether a key belongs to the pages from From on.
func (q PageQuery) matches(e *entry) bool {
	return strings.HasPrefix(e.key, q.Prefix) && e.key >= q.From && (q.Type == "" || q.Type == kindNames[e.value.kind()])
}

// pageStep is how many keys of a store are visited at once for a page. Commands run in between.
const pageStep = 2000

// Page returns the first keys that a query selects. Keys that come or go meanwhile may be missing.
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

// lengths are the commands that tell how many elements a value has.
var lengths = [...]string{kindList: "llen", kindSet: "scard", kindZSet: "zcard", kindHash: "hlen", kindStream: "xlen"}

// keyInfo returns what a page says about a key, unless it is gone.
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

// leastKeys are the least of some keys. It is a heap with the greatest of them first.
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

// add adds a key, and removes the greatest if there are more than limit.
func (k *leastKeys) add(key string, limit int) {
	if len(*k) == limit && key >= (*k)[0] {
		return
	}
	heap.Push(k, key)
	if len(*k) > limit {
		heap.Pop(k)
	}
}

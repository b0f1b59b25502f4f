package redis

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// item is a dict's entry. The value comes first because a zero-size field at the end of a struct takes
// memory.
type item[V any] struct {
	value V
	key   string
}

func (it *item[V]) name() string { return it.key }

// itemOverhead estimates an item's memory without its key and value.
const itemOverhead = 48

// dict maps strings to values. A small one keeps its insertion order. A large one is ordered by hash,
// so that a scan can continue at any position while other items come and go.
type dict[V any] struct {
	small []*item[V]
	// tree has a large dict's items, and probe is the key to search with; both are nil while the dict
	// is small.
	tree  *hashTree[*item[V]]
	probe *item[V]
	// keys counts the bytes in all keys.
	keys int64
}

// Len returns the number of items.
func (d *dict[V]) Len() int {
	if d.tree != nil {
		return d.tree.Len()
	}
	return len(d.small)
}

// isLarge reports whether the dict is ordered by hash.
func (d *dict[V]) isLarge() bool { return d.tree != nil }

// grow orders the dict by hash.
func (d *dict[V]) grow() {
	if d.tree != nil {
		return
	}
	d.tree = newTreeFor(d).(*hashTree[*item[V]])
	d.probe = &item[V]{}
	for _, it := range d.small {
		d.tree.Set(hashOf(it.key), it)
	}
	d.small = nil
}

// newTreeFor returns a hashTree of a dict's items. It is not generic: every package that uses Store or
// Client would otherwise compile the B-trees of all dicts again.
func newTreeFor(d any) any {
	switch d.(type) {
	case *dict[string]:
		return newHashTree[*item[string]]()
	case *dict[float64]:
		return newHashTree[*item[float64]]()
	default:
		return newHashTree[*item[none]]()
	}
}

// find returns a key's item, or nil.
func (d *dict[V]) find(key string) *item[V] {
	if d.tree != nil {
		d.probe.key = key
		it, _ := d.tree.Get(hashOf(key), d.probe)
		d.probe.key = ""
		return it
	}
	if i := d.index(key); i >= 0 {
		return d.small[i]
	}
	return nil
}

// index returns a key's position in a small dict, or -1.
func (d *dict[V]) index(key string) int {
	return slices.IndexFunc(d.small, func(it *item[V]) bool { return it.key == key })
}

// get returns a key's value.
func (d *dict[V]) get(key string) (V, bool) {
	it := d.find(key)
	if it == nil {
		var none V
		return none, false
	}
	return it.value, true
}

// set sets a key's value, and reports whether the key is new. It copies a new key.
func (d *dict[V]) set(key string, v V) bool {
	if it := d.find(key); it != nil {
		it.value = v
		return false
	}
	d.add(key, v)
	return true
}

// add adds a key that the dict does not have yet. It copies the key.
func (d *dict[V]) add(key string, v V) *item[V] {
	it := &item[V]{v, strings.Clone(key)}
	d.keys += int64(len(key))
	if d.tree != nil {
		d.tree.Set(hashOf(key), it)
	} else {
		d.small = append(d.small, it)
	}
	return it
}

// delete removes a key and returns its item, or nil.
func (d *dict[V]) delete(key string) *item[V] {
	it := d.find(key)
	if it == nil {
		return nil
	}
	d.keys -= int64(len(key))
	if d.tree != nil {
		d.tree.Delete(hashOf(key), it)
		return it
	}
	i := d.index(key)
	d.small = slices.Delete(d.small, i, i+1)
	return it
}

// at returns the item at a position.
func (d *dict[V]) at(i int) *item[V] {
	if d.tree != nil {
		return d.tree.At(i)
	}
	return d.small[i]
}

// random returns a random item. The dict must not be empty.
func (d *dict[V]) random() *item[V] { return d.at(rand.IntN(d.Len())) }

// all calls yield for each item until yield returns false. The dict must not change meanwhile.
func (d *dict[V]) all(yield func(*item[V]) bool) {
	if d.tree != nil {
		d.tree.All(yield)
		return
	}
	for _, it := range d.small {
		if !yield(it) {
			return
		}
	}
}

// scan calls visit for about count items from a cursor on, and returns the next cursor, or 0. It visits
// every item that stays in the dict from the first call to the last. A small dict takes a single call.
func (d *dict[V]) scan(cursor uint64, count int, visit func(*item[V])) uint64 {
	if d.tree == nil {
		for _, it := range d.small {
			visit(it)
		}
		return 0
	}
	return d.tree.Scan(cursor, &item[V]{}, count, visit)
}

// size estimates the bytes for keys and items, without the values.
func (d *dict[V]) size() int64 { return d.keys + int64(d.Len())*itemOverhead }

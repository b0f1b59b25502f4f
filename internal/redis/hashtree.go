package redis

import "github.com/cespare/xxhash/v2"

// hashOf returns the hash that orders keys and members. Every process computes the same one, so that
// scan cursors stay valid when a store is opened again. It has 52 bits, because clients read cursors as
// numbers that may be no larger.
func hashOf(key string) uint64 { return xxhash.Sum64String(key) >> 12 }

// named is an element in a hashTree.
type named interface{ name() string }

// slot holds an element with its hash. The hash stands beside the pointer, so that a search follows the
// pointer only where hashes are equal.
type slot[T named] struct {
	hash uint64
	of   T
}

func slotLess[T named](a, b slot[T]) bool {
	return a.hash < b.hash || a.hash == b.hash && a.of.name() < b.of.name()
}

// hashTree holds elements ordered by their names' hashes. So a scan can continue at any position while
// other elements come and go.
type hashTree[T named] struct{ tree tree[slot[T]] }

func newHashTree[T named]() *hashTree[T] {
	return &hashTree[T]{newTree(0, slotLess[T])}
}

// Len returns the number of elements.
func (h *hashTree[T]) Len() int { return h.tree.Len() }

// Get returns the element that has like's name.
func (h *hashTree[T]) Get(hash uint64, like T) (T, bool) {
	s, ok := h.tree.Get(slot[T]{hash, like})
	return s.of, ok
}

// Set adds an element. It replaces one with the same name.
func (h *hashTree[T]) Set(hash uint64, of T) { h.tree.Set(slot[T]{hash, of}) }

// Delete removes the element that has like's name.
func (h *hashTree[T]) Delete(hash uint64, like T) { h.tree.Delete(slot[T]{hash, like}) }

// At returns the element at a position.
func (h *hashTree[T]) At(i int) T {
	s, _ := h.tree.GetAt(i)
	return s.of
}

// All calls yield for each element until yield returns false. The tree must not change meanwhile.
func (h *hashTree[T]) All(yield func(T) bool) {
	h.tree.Scan(func(s slot[T]) bool { return yield(s.of) })
}

// Scan visits about count elements from a cursor on, and returns the next cursor, or 0. It visits all
// elements with the same hash at once, so that a cursor, which is a hash, is exact. least is an element
// whose name sorts before all others.
func (h *hashTree[T]) Scan(cursor uint64, least T, count int, visit func(T)) uint64 {
	next, last := uint64(0), uint64(0)
	h.tree.Ascend(slot[T]{cursor, least}, func(s slot[T]) bool {
		if count <= 0 && s.hash != last {
			next = s.hash
			return false
		}
		last = s.hash
		count--
		visit(s.of)
		return true
	})
	return next
}

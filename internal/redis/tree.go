package redis

import (
	"iter"
	"maps"
	"slices"

	"github.com/tidwall/btree"
)

// tree is a B-tree. It is an interface because every package that uses Store or Client would otherwise
// compile the methods of btree.BTreeG again, for each type of element.
type tree[T any] interface {
	Len() int
	Get(like T) (T, bool)
	GetAt(i int) (T, bool)
	Min() (T, bool)
	Max() (T, bool)
	Set(item T) (old T, replaced bool)
	Delete(like T) (T, bool)
	// Scan and Ascend call visit in order until it returns false. Ascend starts at like.
	Scan(visit func(T) bool)
	Ascend(like T, visit func(T) bool)
}

// newTree returns an empty tree. Trees with a small degree take less memory while they are small; 0
// means the default.
func newTree[T any](degree int, less func(a, b T) bool) tree[T] {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true, Degree: degree})
}

// ordered iterates over a map in the order of its keys.
func ordered[V any](m map[string]V) iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(m[key]) {
				return
			}
		}
	}
}

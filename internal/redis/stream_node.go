package redis

import (
	"slices"
	"strings"
)

// streamEntry is an entry of a stream.
type streamEntry struct {
	id streamID
	// fields and values have the same length. Entries of a node share the fields if they are the same.
	fields, values []string
}

// streamNode has entries that follow one another. Approximate trimming removes whole nodes. A node is full
// at the size at which it is in Redis, where it is a listpack, so that the same entries are removed.
type streamNode struct {
	// first is the ID of the first entry that was added, and last that of the last one, even if they are gone.
	first, last streamID
	fields      []string
	entries     []streamEntry
	// deleted is the number of entries that were added and are gone.
	deleted int
	// packed is the number of bytes of the entries in a listpack.
	packed int
}

// What entries and nodes take in memory beside their strings, about.
const (
	streamEntryOverhead = 64
	streamNodeOverhead  = 160
	stringOverhead      = 16
)

// newNode returns a node for an entry to come.
func newNode(id streamID, fields []string) *streamNode {
	n := &streamNode{first: id, fields: fields}
	n.packed = listpackOverhead + packedInt(int64(len(fields))) + packedInt(0)
	for _, f := range fields {
		n.packed += packedString(f)
	}
	return n
}

// bytes returns the size of the node as a listpack.
func (n *streamNode) bytes() int {
	return n.packed + packedInt(int64(len(n.entries))) + packedInt(int64(n.deleted))
}

// full reports whether an entry with some bytes of fields and values needs another node.
func (n *streamNode) full(bytes int, limits *encodings) bool {
	most := limits.streamNodeMaxBytes
	if most <= 0 || most > maxListpack {
		most = maxListpack
	}
	if n.bytes()+bytes >= most {
		return true
	}
	return limits.streamNodeMaxEntries > 0 && len(n.entries)+n.deleted >= limits.streamNodeMaxEntries
}

// add adds an entry behind the others.
func (n *streamNode) add(id streamID, fields, values []string) {
	count := int64(len(fields))
	n.packed += packedInt(0) + packedInt(int64(id.ms-n.first.ms)) + packedInt(int64(id.seq-n.first.seq))
	if slices.Equal(fields, n.fields) {
		fields = n.fields
		n.packed += packedInt(count + 3)
	} else {
		n.packed += packedInt(count) + packedInt(2*count+4)
		for _, f := range fields {
			n.packed += packedString(f)
		}
	}
	for _, v := range values {
		n.packed += packedString(v)
	}
	n.last = id
	n.entries = append(n.entries, streamEntry{id, fields, values})
}

// compareLast compares the last entry that is there with an ID. A node without entries, which is the last
// of its stream, is before all IDs.
func (n *streamNode) compareLast(id streamID) int {
	if len(n.entries) == 0 {
		return -1
	}
	return n.entries[len(n.entries)-1].id.compare(id)
}

// search returns the position of the first entry that is not before an ID, and whether it has the ID.
func (n *streamNode) search(id streamID) (int, bool) {
	return slices.BinarySearchFunc(n.entries, id, func(e streamEntry, id streamID) int { return e.id.compare(id) })
}

// A listpack has listpackOverhead bytes beside its elements, and maxListpack bytes at most.
const (
	listpackOverhead = 7
	maxListpack      = 1 << 30
)

// packedString returns the number of bytes of a string in a listpack, where numbers are shorter.
func packedString(s string) int {
	if len(s) <= 20 {
		if n, ok := parseInt(s); ok {
			return packedInt(n)
		}
	}
	size := len(s)
	switch {
	case size < 1<<6:
		size++
	case size < 1<<12:
		size += 2
	default:
		size += 5
	}
	return size + packedLength(size)
}

// packedInt returns the number of bytes of a number in a listpack.
func packedInt(n int64) int {
	switch {
	case n >= 0 && n < 1<<7:
		return 2
	case n >= -1<<12 && n < 1<<12:
		return 3
	case n >= -1<<15 && n < 1<<15:
		return 4
	case n >= -1<<23 && n < 1<<23:
		return 5
	case n >= -1<<31 && n < 1<<31:
		return 6
	}
	return 10
}

// packedLength returns the number of bytes of the length that follows an element of a listpack.
func packedLength(size int) int {
	n := 1
	for size >= 1<<7 {
		size >>= 7
		n++
	}
	return n
}

// copyPairs returns copies of the fields and values of an entry, which are given in turns. All share one
// string. The fields are those of a node if they are the same.
func copyPairs(pairs []string, n *streamNode) (fields, values []string) {
	fields = make([]string, 0, len(pairs)/2)
	values = make([]string, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		fields = append(fields, pairs[i])
		values = append(values, pairs[i+1])
	}
	if n != nil && slices.Equal(fields, n.fields) {
		return n.fields, copyStrings(values)
	}
	return copyStrings(fields), copyStrings(values)
}

// copyStrings replaces strings by copies that share one string.
func copyStrings(all []string) []string {
	text := strings.Join(all, "")
	for i, s := range all {
		all[i] = text[:len(s)]
		text = text[len(s):]
	}
	return all
}

// stringsSize returns about the number of bytes of strings.
func stringsSize(all []string) int64 {
	size := int64(len(all)) * stringOverhead
	for _, s := range all {
		size += int64(len(s))
	}
	return size
}

// entrySize returns about the number of bytes of an entry of a node.
func (n *streamNode) entrySize(e *streamEntry) int64 {
	size := streamEntryOverhead + stringsSize(e.values)
	if !shared(e.fields, n.fields) {
		size += stringsSize(e.fields)
	}
	return size
}

// size returns about the number of bytes of a node without its entries.
func (n *streamNode) size() int64 { return streamNodeOverhead + stringsSize(n.fields) }

// shared reports whether two lists are the same memory.
func shared(a, b []string) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

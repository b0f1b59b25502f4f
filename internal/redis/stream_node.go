package redis

import (
	"slices"
	"strings"
)

// streamEntry is a stream's entry.
type streamEntry struct {
	id streamID
	// fields and values have the same length. Entries with the same fields as their node share its
	// slice.
	fields, values []string
}

// streamNode holds consecutive entries. Approximate trimming removes whole nodes. So a node is full at
// the size at which Redis's listpack is, and trimming removes the same entries as in Redis.
type streamNode struct {
	// first and last are the IDs of the first and the last entry ever added, even if they are gone.
	first, last streamID
	fields      []string
	entries     []streamEntry
	// deleted counts the entries that were added and are gone.
	deleted int
	// packed counts the bytes that the entries would take in a listpack.
	packed int
}

// Estimated memory for entries and nodes, without their strings.
const (
	streamEntryOverhead = 64
	streamNodeOverhead  = 160
	stringOverhead      = 16
)

// newNode returns a node for the entry that the caller is about to add.
func newNode(id streamID, fields []string) *streamNode {
	n := &streamNode{first: id, fields: fields}
	n.packed = listpackOverhead + packedInt(int64(len(fields))) + packedInt(0)
	for _, f := range fields {
		n.packed += packedString(f)
	}
	return n
}

// bytes returns the node's size as a listpack.
func (n *streamNode) bytes() int {
	return n.packed + packedInt(int64(len(n.entries))) + packedInt(int64(n.deleted))
}

// full reports whether an entry with this many bytes in its fields and values needs another node.
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

// add appends an entry.
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

// compareLast compares the last remaining entry with an ID. A node without entries, which must be its
// stream's last, sorts before all IDs.
func (n *streamNode) compareLast(id streamID) int {
	if len(n.entries) == 0 {
		return -1
	}
	return n.entries[len(n.entries)-1].id.compare(id)
}

// search returns the position of the first entry at or after an ID, and whether it has that ID.
func (n *streamNode) search(id streamID) (int, bool) {
	return slices.BinarySearchFunc(n.entries, id, func(e streamEntry, id streamID) int { return e.id.compare(id) })
}

// A listpack takes listpackOverhead bytes on top of its elements, and at most maxListpack bytes.
const (
	listpackOverhead = 7
	maxListpack      = 1 << 30
)

// packedString returns a string's size in a listpack, which stores numbers in fewer bytes.
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

// packedInt returns a number's size in a listpack.
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

// packedLength returns the size of the length that follows each element in a listpack.
func packedLength(size int) int {
	n := 1
	for size >= 1<<7 {
		size >>= 7
		n++
	}
	return n
}

// copyPairs copies an entry's alternating fields and values. The copies share one string. If the node
// has the same fields, it returns those instead.
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

// stringsSize estimates the bytes that strings take.
func stringsSize(all []string) int64 {
	size := int64(len(all)) * stringOverhead
	for _, s := range all {
		size += int64(len(s))
	}
	return size
}

// entrySize estimates the bytes that an entry takes.
func (n *streamNode) entrySize(e *streamEntry) int64 {
	size := streamEntryOverhead + stringsSize(e.values)
	if !shared(e.fields, n.fields) {
		size += stringsSize(e.fields)
	}
	return size
}

// size estimates the bytes that the node takes without its entries.
func (n *streamNode) size() int64 { return streamNodeOverhead + stringsSize(n.fields) }

// shared reports whether two lists are the same memory.
func shared(a, b []string) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

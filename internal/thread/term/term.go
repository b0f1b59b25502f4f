// Package term has the terms by which threads are listed. A term is the hash of something that threads can
// be filtered by: a project, or a top-level key of the metadata with its value. The index tables of package
// thread list the threads of each term in the order of their positions.
package term

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"steward/internal/stamp"
)

// Term is a hash. Its 128 bits of SHA-256 make accidental collisions negligible; a deliberate one
// would only let callers find threads of their own organization.
type Term [16]byte

// OfProject returns the term that the threads of a project have.
func OfProject(projectID string) Term { return hash('p', projectID, nil) }

// OfKey returns the term of the threads whose metadata has this value at this key. Numbers in the
// value are of type json.Number.
func OfKey(key string, value any) Term { return hash('k', key, appendCanonical(nil, value)) }

// InProject returns the term of the threads of a project that have t.
func (t Term) InProject(projectID string) Term { return hash('b', projectID, t[:]) }

func hash(kind byte, name string, value []byte) (t Term) {
	text := []byte{kind}
	text = binary.AppendUvarint(text, uint64(len(name)))
	text = append(text, name...)
	text = append(text, value...)
	sum := sha256.Sum256(text)
	copy(t[:], sum[:])
	return t
}

// OfKeys returns the terms of an object's keys.
func OfKeys(object map[string]any) []Term {
	terms := make([]Term, 0, len(object))
	for key, value := range object {
		terms = append(terms, OfKey(key, value))
	}
	return terms
}

// All returns the terms of a thread, sorted: its project, its metadata keys, and its keys
// within the project. The latter make a filter by project and key as fast as one by key; every list
// of a caller that is confined to a project has both.
func All(projectID string, keys []Term) []Term {
	terms := make([]Term, 0, 1+2*len(keys))
	terms = append(terms, OfProject(projectID))
	for _, key := range keys {
		terms = append(terms, key, key.InProject(projectID))
	}
	slices.SortFunc(terms, compare)
	return terms
}

func compare(a, b Term) int { return bytes.Compare(a[:], b[:]) }

// Position returns where a thread stands among those of a term: the term, whether the thread is
// deleted, and a time. A list of a term's threads is a range of positions, in the order of time.
func (t Term) Position(deleted bool, at stamp.Time) []byte {
	return binary.BigEndian.AppendUint64(t.First(deleted), uint64(at))
}

// First returns the prefix of all positions of a term.
func (t Term) First(deleted bool) []byte {
	if deleted {
		return append(t[:], 1)
	}
	return append(t[:], 0)
}

// End returns a value after all positions of a term.
func (t Term) End(deleted bool) []byte {
	end := t.First(deleted)
	end[len(end)-1]++
	return end
}

const (
	// prefixLen is how much of a key's term is stored beside the other keys: 64 bits make
	// accidental collisions within an organization negligible.
	prefixLen = 8
	// MaxPrefixes is the most keys that are stored in this way, since all of them are stored in the
	// entry of each.
	MaxPrefixes = 16
)

// Prefix returns what PackPrefixes stores of a key's term.
func (t Term) Prefix() []byte { return t[:prefixLen] }

// PackPrefixes returns the column value of a thread's keys in its index entries, or nil if they are
// too many.
func PackPrefixes(keys []Term) []byte {
	if len(keys) > MaxPrefixes {
		return nil
	}
	packed := make([]byte, 0, len(keys)*prefixLen)
	for _, key := range keys {
		packed = append(packed, key.Prefix()...)
	}
	return packed
}

// Pack returns the column value of terms.
func Pack(terms []Term) []byte {
	packed := make([]byte, 0, len(terms)*len(Term{}))
	for _, t := range terms {
		packed = append(packed, t[:]...)
	}
	return packed
}

// Unpack is the inverse of Pack.
func Unpack(packed []byte) []Term {
	terms := make([]Term, 0, len(packed)/len(Term{}))
	for chunk := range slices.Chunk(packed, len(Term{})) {
		terms = append(terms, Term(chunk))
	}
	return terms
}

// Package term has the terms by which we list threads. A term is a hash for something by which we
// filter threads: a project, or a top-level metadata key with its value. Package thread's index tables
// have each term's threads in the order of their positions.
package term

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"steward/internal/stamp"
)

// Term is a hash. Its 128 bits from SHA-256 make accidental collisions negligible; a deliberate one
// would only let callers find threads in their own organization.
type Term [16]byte

// OfProject returns the term for a project's threads.
func OfProject(projectID string) Term { return hash('p', projectID, nil) }

// OfKey returns the term for threads whose metadata has this value at this key. Numbers in the value
// have the type json.Number.
func OfKey(key string, value any) Term { return hash('k', key, appendCanonical(nil, value)) }

// InProject returns the term for a project's threads that have t.
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

// OfKeys returns the terms for an object's keys.
func OfKeys(object map[string]any) []Term {
	terms := make([]Term, 0, len(object))
	for key, value := range object {
		terms = append(terms, OfKey(key, value))
	}
	return terms
}

// All returns a thread's terms, sorted: its project, its metadata keys, and its keys within the
// project. The latter make a filter by project and key as fast as one by key; a caller that is confined
// to a project always uses both.
func All(projectID string, keys []Term) []Term {
	terms := make([]Term, 0, 1+2*len(keys))
	terms = append(terms, OfProject(projectID))
	for _, key := range keys {
		terms = append(terms, key, key.InProject(projectID))
	}
	slices.SortFunc(terms, func(a, b Term) int { return bytes.Compare(a[:], b[:]) })
	return terms
}

// Position returns a thread's place among a term's threads: the term, whether the thread is deleted,
// and a time. A list of a term's threads is a range of positions, in the order of time.
func (t Term) Position(deleted bool, at stamp.Time) []byte {
	return binary.BigEndian.AppendUint64(t.First(deleted), uint64(at))
}

// First returns the prefix that a term's positions share.
func (t Term) First(deleted bool) []byte {
	if deleted {
		return append(t[:], 1)
	}
	return append(t[:], 0)
}

// End returns a value after all of a term's positions.
func (t Term) End(deleted bool) []byte {
	end := t.First(deleted)
	end[len(end)-1]++
	return end
}

const (
	// prefixLen is the length of the prefix that we store for a key's term beside the other keys: with
	// 64 bits, accidental collisions within an organization are negligible.
	prefixLen = 8
	// MaxPrefixes caps the keys that we store in this way, since each key's entry has all of them.
	MaxPrefixes = 16
)

// Prefix returns the part of a key's term that PackPrefixes stores.
func (t Term) Prefix() []byte { return t[:prefixLen] }

// PackPrefixes returns the column value for a thread's keys in its index entries, or nil if there are
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

// Pack returns the column value for terms.
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

// appendCanonical appends a text that is the same for equal values, and only for them. Keys are
// sorted, strings are not escaped, and numbers are equal if their values are (1, 1.0 and 10e-1).
// The value was decoded with UseNumber.
func appendCanonical(out []byte, value any) []byte {
	switch v := value.(type) {
	case map[string]any:
		out = append(out, '{')
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = appendCanonical(append(appendText(out, key), ':'), v[key])
		}
		return append(out, '}')
	case []any:
		out = append(out, '[')
		for _, element := range v {
			out = append(appendCanonical(out, element), ',')
		}
		return append(out, ']')
	case string:
		return appendText(out, v)
	case json.Number:
		return append(out, canonicalNumber(string(v))...)
	case bool:
		return strconv.AppendBool(out, v)
	}
	return append(out, "null"...)
}

// appendText appends the length before the text, so that nothing in the text needs an escape.
func appendText(out []byte, s string) []byte {
	out = append(strconv.AppendInt(append(out, '"'), int64(len(s)), 10), '"')
	return append(out, s...)
}

// canonicalNumber returns a JSON number as its significant digits and a power of ten. Exponents of
// more than 18 digits are compared by their text.
func canonicalNumber(text string) string {
	sign := ""
	if rest, negative := strings.CutPrefix(text, "-"); negative {
		sign = "-"
		text = rest
	}
	text, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	whole, fraction, _ := strings.Cut(text, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0"
	}
	significant := strings.TrimRight(digits, "0")
	power, err := strconv.ParseInt(cmp.Or(exponent, "0"), 10, 62)
	if err != nil {
		return sign + text + "e" + exponent
	}
	power += int64(len(digits) - len(significant) - len(fraction))
	return sign + significant + "e" + strconv.FormatInt(power, 10)
}

package thread

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"steward/internal/stamp"
)

// facet is the hash of one thing that a thread can be found by. 128 bits of SHA-256 leave no collision to chance; whoever found one on
// purpose would make threads of their own organization match their own filter.
type facet [16]byte

// projectFacet is shared by the threads of a project.
func projectFacet(projectID string) facet { return hashFacet('p', projectID, nil) }

// keyFacet is shared by the threads that have this value at this key of their metadata.
func keyFacet(key string, value any) facet { return hashFacet('k', key, appendCanonical(nil, value)) }

func hashFacet(kind byte, name string, value []byte) (f facet) {
	text := append(make([]byte, 0, 16+len(name)+len(value)), kind)
	text = binary.AppendUvarint(text, uint64(len(name)))
	text = append(append(text, name...), value...)
	sum := sha256.Sum256(text)
	copy(f[:], sum[:])
	return f
}

// facetsOf gives the facets of an object's keys.
func facetsOf(object map[string]any) []facet {
	out := make([]facet, 0, len(object))
	for key, value := range object {
		out = append(out, keyFacet(key, value))
	}
	return out
}

// inProject is shared by the threads of a project that have a key's facet.
func (f facet) inProject(projectID string) facet { return hashFacet('b', projectID, f[:]) }

// withProject gives all facets of a thread, sorted: its project, its keys, and its keys in the project. The last ones make a filter by
// project and key as cheap as one by key: every list of a confined caller has a project.
func withProject(projectID string, keys []facet) []facet {
	out := append(make([]facet, 0, 1+2*len(keys)), projectFacet(projectID))
	for _, key := range keys {
		out = append(out, key, key.inProject(projectID))
	}
	slices.SortFunc(out, compareFacets)
	return out
}

// placeTime is where the time begins in a place.
const placeTime = len(facet{}) + 1

// place is where a thread stands among those of a facet, so that a list of them is a range, in its order.
func (f facet) place(deleted bool, at stamp.Time) []byte {
	return binary.BigEndian.AppendUint64(f.first(deleted), uint64(at))
}

// first is what all places of a facet begin with.
func (f facet) first(deleted bool) []byte {
	out := append(make([]byte, 0, placeTime+8), f[:]...)
	if deleted {
		return append(out, 1)
	}
	return append(out, 0)
}

// end is beyond all places of a facet.
func (f facet) end(deleted bool) []byte {
	out := f.first(deleted)
	out[len(out)-1]++
	return out
}

const (
	// mateSize is what is kept of a facet beside another one. By chance no two of an organization's are alike in 64 bits.
	mateSize = 8
	// maxMates bounds the keys that are kept so: each is kept with each.
	maxMates = 16
)

// matesOf are the keys of a thread as each of its rows in the index has them; nil when they are too many.
func matesOf(keys []facet) []byte {
	if len(keys) > maxMates {
		return nil
	}
	out := make([]byte, 0, len(keys)*mateSize)
	for _, key := range keys {
		out = append(out, key[:mateSize]...)
	}
	return out
}

// packFacets writes facets into one value; they are sorted.
func packFacets(list []facet) []byte {
	out := make([]byte, 0, len(list)*len(facet{}))
	for _, f := range list {
		out = append(out, f[:]...)
	}
	return out
}

func compareFacets(a, b facet) int { return bytes.Compare(a[:], b[:]) }

func unpackFacets(packed []byte) []facet {
	out := make([]facet, 0, len(packed)/len(facet{}))
	for chunk := range slices.Chunk(packed, len(facet{})) {
		out = append(out, facet(chunk))
	}
	return out
}

var errNotObject = errors.New("not a JSON object")

// decodeObject reads an object; its numbers keep their text, and of two equal keys the last one wins.
func decodeObject(text []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errNotObject
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errNotObject
	}
	return object, nil
}

// encodeJSON writes a value without a line break and without escapes for HTML.
func encodeJSON(value any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(value)
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), err
}

// appendCanonical writes a value that was decoded with UseNumber such that equal values, and only they, have equal text: keys are sorted,
// strings are unescaped, and numbers are equal when their values are (1, 1.0 and 10e-1).
func appendCanonical(out []byte, value any) []byte {
	switch v := value.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		out = append(out, '{')
		for _, key := range keys {
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

// appendText writes the length before the text: nothing in it then needs an escape.
func appendText(out []byte, s string) []byte {
	out = append(strconv.AppendInt(append(out, '"'), int64(len(s)), 10), '"')
	return append(out, s...)
}

// canonicalNumber writes a JSON number as its digits without zeros at either end, and the power of ten that they are multiplied with.
// Exponents beyond 18 digits are compared by their text: no two useful numbers meet there.
func canonicalNumber(text string) string {
	sign := ""
	if rest, negative := strings.CutPrefix(text, "-"); negative {
		sign, text = "-", rest
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

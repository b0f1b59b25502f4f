package redis

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"strings"
)

// dumpVersion is the dump format's version. Before version 2, consumers had no active time.
const dumpVersion = 2

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// dump encodes a value for DUMP in our own format: the kind, the value, a version, and a checksum.
func dump(v value) []byte { return appendDump(nil, v) }

// appendDump appends a dump to an empty buffer.
func appendDump(b []byte, v value) []byte { return seal(v.appendTo(append(b, byte(v.kind())))) }

// seal appends the version and a checksum.
func seal(b []byte) []byte {
	b = append(b, dumpVersion)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// unseal returns a loader for what seal was given, or nil if the version or the checksum is wrong.
func unseal(text string) *loader {
	if len(text) < 6 {
		return nil
	}
	body, sum := text[:len(text)-4], text[len(text)-4:]
	version := body[len(body)-1]
	if crc32.Checksum([]byte(body), castagnoli) != binary.LittleEndian.Uint32([]byte(sum)) || version < 1 || version > dumpVersion {
		return nil
	}
	return &loader{text: body[:len(body)-1], version: version}
}

var errDump = errors.New("bad data format")

// undump decodes a dump.
func undump(text string) (value, error) {
	r := unseal(text)
	if r == nil {
		return nil, errDump
	}
	k := kind(r.text[0])
	r.text = r.text[1:]
	v := loadValue(k, r)
	if r.bad || r.text != "" || v == nil || v.empty() {
		return nil, errDump
	}
	return v, nil
}

// loadValue reads a value, or returns nil if there is no such kind.
func loadValue(k kind, r *loader) value {
	switch k {
	case kindString:
		return loadString(r)
	case kindList:
		return loadList(r)
	case kindSet:
		return loadSet(r)
	case kindZSet:
		return loadZSet(r)
	case kindHash:
		return loadHash(r)
	case kindStream:
		return loadStream(r)
	}
	return nil
}

// loader reads the output of the values' appendTo methods. Once something is unreadable, bad is true
// and all that follows is zero.
type loader struct {
	text    string
	version byte
	bad     bool
}

func (r *loader) fail() {
	r.text = ""
	r.bad = true
}

// uint reads a number.
func (r *loader) uint() uint64 {
	var n uint64
	for i := 0; i < len(r.text) && i < binary.MaxVarintLen64; i++ {
		c := r.text[i]
		n |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			r.text = r.text[i+1:]
			return n
		}
	}
	r.fail()
	return 0
}

// count reads the number of elements that follow. Each takes at least a byte, which bounds it.
func (r *loader) count() int {
	n := r.uint()
	if n > uint64(len(r.text)) {
		r.fail()
		return 0
	}
	return int(n)
}

// int reads a number that may be negative.
func (r *loader) int() int64 {
	n := r.uint()
	return int64(n>>1) ^ -int64(n&1)
}

// string reads a string. It copies the string, so that the text can be freed.
func (r *loader) string() string { return strings.Clone(r.view()) }

// view reads a string, which is a part of the text.
func (r *loader) view() string {
	n := r.count()
	s := r.text[:n]
	r.text = r.text[n:]
	return s
}

// float reads a floating-point number.
func (r *loader) float() float64 {
	if len(r.text) < 8 {
		r.fail()
		return 0
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64([]byte(r.text[:8])))
	r.text = r.text[8:]
	return v
}

func appendUint(b []byte, n uint64) []byte { return binary.AppendUvarint(b, n) }

func appendInt(b []byte, n int64) []byte { return binary.AppendVarint(b, n) }

func appendString(b []byte, s string) []byte { return append(appendUint(b, uint64(len(s))), s...) }

func appendFloat(b []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
}

package redis

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// A HyperLogLog is a string: a header and 16,384 registers with 6 bits each. A sparse one has runs of
// registers instead. Redis has three kinds of runs:
//
//	00nnnnnn           n+1 registers are zero
//	01nnnnnn nnnnnnnn  n+1 registers are zero
//	1vvvvvnn           n+1 registers are v+1
const (
	hllMagic     = "HYLL"
	hllHeader    = 16
	hllBits      = 14
	hllRegisters = 1 << hllBits
	hllDenseSize = hllHeader + hllRegisters*6/8
	hllDense     = 0
	hllSparse    = 1
	// hllCount is the last count's offset in the header. hllStale in its last byte marks it stale.
	hllCount = 8
	hllStale = 0x80
	// hllMaxSparse is the largest value that a sparse register can have.
	hllMaxSparse = 32
)

// hyperLogLogCommands has the HyperLogLog commands.
var hyperLogLogCommands = []*command{
	{name: "pfadd", arity: -2, flags: writesFast, first: 1, run: pfAdd, categories: "hyperloglog"},
	{name: "pfcount", arity: -2, flags: flagReadonly, first: 1, last: -1, run: pfCount, categories: "hyperloglog"},
	{name: "pfmerge", arity: -2, flags: writes, first: 1, last: -1, run: pfMerge, categories: "hyperloglog"},
}

// registers holds a HyperLogLog's registers.
type registers [hllRegisters]uint8

const errHLL replyError = "WRONGTYPE Key is not a valid HyperLogLog string value."

// hllOf returns a HyperLogLog's entry, or nil if there is none.
func (x *call) hllOf(key string) (*entry, error) {
	e, err := x.lookupKind(key, kindString)
	if err != nil || e == nil {
		return nil, err
	}
	b := e.value.(*str).b
	if len(b) < hllHeader || string(b[:4]) != hllMagic || b[4] > hllSparse || b[4] == hllDense && len(b) != hllDenseSize {
		return nil, errHLL
	}
	return e, nil
}

// loadRegisters reads a HyperLogLog's registers.
func loadRegisters(b []byte) (*registers, error) {
	r := &registers{}
	if b[4] == hllDense {
		for i := range r {
			r[i] = denseRegister(b, i)
		}
		return r, nil
	}
	at := 0
	for i := hllHeader; i < len(b); i++ {
		run, v := 0, uint8(0)
		switch c := b[i]; {
		case c&0x80 != 0:
			v = c>>2&0x1f + 1
			run = int(c&3) + 1
		case c&0x40 != 0:
			i++
			if i == len(b) {
				return nil, errBadHLL
			}
			run = int(c&0x3f)<<8 + int(b[i]) + 1
		default:
			run = int(c&0x3f) + 1
		}
		if at+run > hllRegisters {
			return nil, errBadHLL
		}
		for range run {
			r[at] = v
			at++
		}
	}
	if at != hllRegisters {
		return nil, errBadHLL
	}
	return r, nil
}

const errBadHLL replyError = "INVALIDOBJ Corrupted HLL object detected"

// denseRegister returns register i in a dense HyperLogLog.
func denseRegister(b []byte, i int) uint8 {
	at, shift := hllHeader+i*6/8, i*6%8
	v := uint16(b[at]) >> shift
	if shift > 2 {
		v |= uint16(b[at+1]) << (8 - shift)
	}
	return uint8(v & 0x3f)
}

// setDenseRegister sets register i in a dense HyperLogLog.
func setDenseRegister(b []byte, i int, v uint8) {
	at, shift := hllHeader+i*6/8, i*6%8
	b[at] = b[at]&^(0x3f<<shift) | v<<shift
	if shift > 2 {
		b[at+1] = b[at+1]&^(0x3f>>(8-shift)) | v>>(8-shift)
	}
}

// bytes encodes the registers: sparse if that is asked for, possible, and no longer than limit.
func (r *registers) bytes(sparse bool, limit int) []byte {
	if sparse {
		if b := r.sparse(); b != nil && len(b)-hllHeader <= limit {
			return b
		}
	}
	b := make([]byte, hllDenseSize)
	copy(b, hllMagic)
	b[hllHeader-1] = hllStale
	for i, v := range r {
		setDenseRegister(b, i, v)
	}
	return b
}

// sparse encodes the registers as runs. It returns nil if one is too large.
func (r *registers) sparse() []byte {
	b := append([]byte(hllMagic), make([]byte, hllHeader-len(hllMagic))...)
	b[4] = hllSparse
	b[hllHeader-1] = hllStale
	for i := 0; i < hllRegisters; {
		v := r[i]
		run := 1
		for i+run < hllRegisters && r[i+run] == v {
			run++
		}
		i += run
		if v > hllMaxSparse {
			return nil
		}
		b = appendRun(b, v, run)
	}
	return b
}

// appendRun appends a run of equal registers.
func appendRun(b []byte, v uint8, run int) []byte {
	for run > 0 {
		switch {
		case v > 0:
			n := min(run, 4)
			b = append(b, 0x80|(v-1)<<2|uint8(n-1))
			run -= n
		case run > 64:
			b = append(b, 0x40|uint8((run-1)>>8), uint8(run-1))
			run = 0
		default:
			b = append(b, uint8(run-1))
			run = 0
		}
	}
	return b
}

// hllPosition returns an element's register, and the least value it must have.
func hllPosition(element string) (int, uint8) {
	h := murmur64(element, 0xadc83b19)
	return int(h & (hllRegisters - 1)), uint8(bits.TrailingZeros64(h>>hllBits|1<<(64-hllBits)) + 1)
}

// murmur64 is MurmurHash64A. It must match Redis's hash, so that elements share the same registers.
func murmur64(text string, seed uint64) uint64 {
	const m = 0xc6a4a7935bd1e995
	h := seed ^ uint64(len(text))*m
	b := []byte(text)
	for ; len(b) >= 8; b = b[8:] {
		k := binary.LittleEndian.Uint64(b) * m
		k ^= k >> 47
		h = (h ^ k*m) * m
	}
	if len(b) > 0 {
		var rest [8]byte
		copy(rest[:], b)
		h = (h ^ binary.LittleEndian.Uint64(rest[:])) * m
	}
	h ^= h >> 47
	h *= m
	return h ^ h>>47
}

func pfAdd(x *call) error {
	e, err := x.hllOf(x.args[1])
	if err != nil {
		return err
	}
	updated := e == nil
	if e == nil {
		e = x.set(x.args[1], &str{b: (&registers{}).sparse(), edited: true})
	}
	changed, err := e.value.(*str).addElements(x.args[2:], x.limits.hllSparseMaxBytes)
	if err != nil {
		return err
	}
	if changed {
		x.changed(e)
	}
	return x.replyFlag(updated || changed)
}

// addElements adds elements to a HyperLogLog, and reports whether it has changed.
func (s *str) addElements(all []string, maxSparse int) (bool, error) {
	if s.b[4] == hllDense {
		changed := false
		for _, element := range all {
			i, v := hllPosition(element)
			if denseRegister(s.b, i) < v {
				setDenseRegister(s.b, i, v)
				s.b[hllHeader-1] |= hllStale
				changed = true
			}
		}
		return changed, nil
	}
	r, err := loadRegisters(s.b)
	if err != nil {
		return false, err
	}
	changed := false
	for _, element := range all {
		i, v := hllPosition(element)
		changed = changed || r[i] < v
		r[i] = max(r[i], v)
	}
	if changed {
		s.setRegisters(r, true, maxSparse)
	}
	return changed, nil
}

// setRegisters sets the registers and marks the last count stale.
func (s *str) setRegisters(r *registers, sparse bool, maxSparse int) {
	count := s.b[hllCount:hllHeader]
	s.b = r.bytes(sparse, maxSparse)
	copy(s.b[hllCount:], count)
	s.b[hllHeader-1] |= hllStale
	s.edited = true
}

// merged merges the keys' registers by taking each one's maximum, and reports whether all existing keys
// are sparse.
func (x *call) merged(keys []string) (*registers, bool, error) {
	all := &registers{}
	sparse := true
	for _, key := range keys {
		e, err := x.hllOf(key)
		if err != nil {
			return nil, false, err
		}
		if e == nil {
			continue
		}
		b := e.value.(*str).b
		sparse = sparse && b[4] == hllSparse
		r, err := loadRegisters(b)
		if err != nil {
			return nil, false, err
		}
		for i, v := range r {
			all[i] = max(all[i], v)
		}
	}
	return all, sparse, nil
}

func pfCount(x *call) error {
	if len(x.args) == 2 {
		return x.countOne(x.args[1])
	}
	r, _, err := x.merged(x.args[1:])
	if err != nil {
		return err
	}
	return x.replyInt(r.estimate())
}

// countOne replies with a key's count, and caches it in the header.
func (x *call) countOne(key string) error {
	e, err := x.hllOf(key)
	if err != nil {
		return err
	}
	if e == nil {
		return x.replyInt(0)
	}
	s := e.value.(*str)
	s.edited = true
	if s.b[hllHeader-1]&hllStale != 0 {
		r, err := loadRegisters(s.b)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(s.b[hllCount:], uint64(r.estimate()))
		x.changed(e)
	}
	return x.replyInt(int64(binary.LittleEndian.Uint64(s.b[hllCount:])))
}

func pfMerge(x *call) error {
	r, sparse, err := x.merged(x.args[1:])
	if err != nil {
		return err
	}
	e := x.keys.find(x.args[1])
	if e == nil {
		e = x.set(x.args[1], &str{b: (&registers{}).sparse()})
	}
	e.value.(*str).setRegisters(r, sparse, x.limits.hllSparseMaxBytes)
	x.changed(e)
	x.effectOf(x.args[1])
	return x.replyOK()
}

// estimate estimates how many elements were added, with Ertl's estimator as in Redis.
func (r *registers) estimate() int64 {
	const q = 64 - hllBits
	var histogram [64]float64
	for _, v := range r {
		histogram[v]++
	}
	m := float64(hllRegisters)
	z := m * hllTau((m-histogram[q+1])/m)
	for j := q; j >= 1; j-- {
		z += histogram[j]
		z *= 0.5
	}
	z += m * hllSigma(histogram[0]/m)
	return int64(math.Round(0.721347520444481703680 * m * m / z))
}

func hllSigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for {
		x *= x
		before := z
		z += x * y
		y += y
		if z == before {
			return z
		}
	}
}

func hllTau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for {
		x = math.Sqrt(x)
		before := z
		y *= 0.5
		z -= (1 - x) * (1 - x) * y
		if z == before {
			return z / 3
		}
	}
}

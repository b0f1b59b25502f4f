package redis

import "slices"

// match is a part that two strings share: the positions of its first and last byte in each.
type match struct{ a, b [2]int }

func (m match) len() int { return m.a[1] - m.a[0] + 1 }

// lcs returns the longest common subsequence of two strings.
func lcs(x *call) error {
	a, err := find[*str](x, x.args[1])
	b, err2 := find[*str](x, x.args[2])
	if err != nil || err2 != nil {
		return errorf("ERR The specified keys must contain string values")
	}
	var wantLen, wantIdx, withLen bool
	minLen := int64(0)
	for i := 3; i < len(x.args); i++ {
		switch {
		case x.is(i, "LEN"):
			wantLen = true
		case x.is(i, "IDX"):
			wantIdx = true
		case x.is(i, "WITHMATCHLEN"):
			withLen = true
		case x.is(i, "MINMATCHLEN") && i+1 < len(x.args):
			i++
			if minLen, err = x.int(i); err != nil {
				return err
			}
			minLen = max(minLen, 0)
		default:
			return errSyntax
		}
	}
	if wantLen && wantIdx {
		return errorf("ERR If you want both the length and indexes, please just use IDX.")
	}
	l, err := newLCS(a, b)
	if err != nil {
		return err
	}
	switch {
	case wantIdx:
		x.replyMatches(l, int(minLen), withLen)
	case wantLen:
		x.out.len(l.length())
	default:
		x.out.bulk(l.text())
	}
	return nil
}

// longest holds, for all prefixes of two strings, the length of their longest common subsequence.
type longest struct {
	a, b    []byte
	lengths []uint32
}

// maxLCS is the largest table of lengths, in bytes.
const maxLCS = 64 << 20

func newLCS(a, b *str) (*longest, error) {
	l := &longest{}
	if a != nil {
		l.a = a.b
	}
	if b != nil {
		l.b = b.b
	}
	width := len(l.b) + 1
	if (len(l.a)+1)*width > maxLCS/4 {
		return nil, errorf("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len")
	}
	l.lengths = make([]uint32, (len(l.a)+1)*width)
	for i := 1; i <= len(l.a); i++ {
		for j := 1; j <= len(l.b); j++ {
			if l.a[i-1] == l.b[j-1] {
				l.lengths[i*width+j] = l.at(i-1, j-1) + 1
			} else {
				l.lengths[i*width+j] = max(l.at(i-1, j), l.at(i, j-1))
			}
		}
	}
	return l, nil
}

// at returns the length for the first i bytes in a and the first j in b.
func (l *longest) at(i, j int) uint32 { return l.lengths[i*(len(l.b)+1)+j] }

func (l *longest) length() int { return int(l.at(len(l.a), len(l.b))) }

// text returns the subsequence.
func (l *longest) text() string {
	var text []byte
	l.walk(func(i, _ int) { text = append(text, l.a[i]) })
	slices.Reverse(text)
	return string(text)
}

// walk calls visit with the subsequence's positions in both strings, last one first.
func (l *longest) walk(visit func(i, j int)) {
	i, j := len(l.a), len(l.b)
	for i > 0 && j > 0 {
		switch {
		case l.a[i-1] == l.b[j-1]:
			visit(i-1, j-1)
			i--
			j--
		case l.at(i-1, j) > l.at(i, j-1):
			i--
		default:
			j--
		}
	}
}

// matches returns the subsequence's parts, last one first.
func (l *longest) matches() []match {
	var all []match
	l.walk(func(i, j int) {
		if n := len(all) - 1; n >= 0 && all[n].a[0] == i+1 && all[n].b[0] == j+1 {
			all[n].a[0] = i
			all[n].b[0] = j
			return
		}
		all = append(all, match{a: [2]int{i, i}, b: [2]int{j, j}})
	})
	return all
}

// replyMatches appends the parts that are no shorter than least.
func (x *call) replyMatches(l *longest, least int, withLen bool) {
	all := slices.DeleteFunc(l.matches(), func(m match) bool { return m.len() < least })
	x.out.mapOf(2)
	x.out.bulk("matches")
	x.out.array(len(all))
	for _, m := range all {
		n := 2
		if withLen {
			n = 3
		}
		x.out.array(n)
		for _, at := range [][2]int{m.a, m.b} {
			x.out.array(2)
			x.out.len(at[0])
			x.out.len(at[1])
		}
		if withLen {
			x.out.len(m.len())
		}
	}
	x.out.bulk("len")
	x.out.len(l.length())
}

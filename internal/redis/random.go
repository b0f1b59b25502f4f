package redis

import (
	"math"
	"math/rand/v2"
)

// randomOptions are the arguments for HRANDFIELD, SRANDMEMBER and ZRANDMEMBER.
type randomOptions struct {
	// single asks for one element, instead of a list.
	single bool
	count  int64
	// repeat allows an element to be returned more than once.
	repeat bool
	// values asks for values, or scores, too.
	values bool
}

// maxRepeated caps the count when elements may repeat, because it may then exceed the number of
// elements.
const maxRepeated = 1 << 20

// randomOptions reads the count and the word that asks for values; "" if the command has none.
func (x *call) randomOptions(word string) (randomOptions, error) {
	if len(x.args) == 2 {
		return randomOptions{single: true}, nil
	}
	n, err := x.int(2)
	if err != nil {
		return randomOptions{}, err
	}
	if n < -math.MaxInt64 {
		return randomOptions{}, errorf("ERR value is out of range")
	}
	if len(x.args) > 4 || len(x.args) == 4 && (word == "" || !x.is(3, word)) {
		return randomOptions{}, errSyntax
	}
	r := randomOptions{count: n, repeat: n < 0, values: len(x.args) == 4}
	if r.repeat {
		r.count = -n
	}
	if r.repeat && r.count > maxRepeated || r.values && n > math.MaxInt64/2 {
		return randomOptions{}, errorf("ERR value is out of range")
	}
	return r, nil
}

// replyNoRandom replies that there is no element.
func (x *call) replyNoRandom(r randomOptions) {
	if r.single {
		x.out.null()
	} else {
		x.out.array(0)
	}
}

// randomItems returns random items. The dict must not be empty.
func randomItems[V any](d *dict[V], r randomOptions) []*item[V] {
	if r.single {
		return []*item[V]{d.random()}
	}
	if r.repeat {
		all := make([]*item[V], r.count)
		for i := range all {
			all[i] = d.random()
		}
		return all
	}
	return distinctItems(d, int(min(r.count, int64(d.Len()))))
}

// distinctItems returns n different items, each equally likely.
func distinctItems[V any](d *dict[V], n int) []*item[V] {
	total := d.Len()
	all := make([]*item[V], 0, n)
	if n*3 > total {
		i := 0
		d.all(func(it *item[V]) bool {
			// With n-len(all) items still to take and total-i left, this is the chance to take this
			// one.
			if rand.IntN(total-i) < n-len(all) {
				all = append(all, it)
			}
			i++
			return true
		})
		return all
	}
	taken := map[int]bool{}
	for len(all) < n {
		if i := rand.IntN(total); !taken[i] {
			taken[i] = true
			all = append(all, d.at(i))
		}
	}
	return all
}

// replyItems appends items. If values are wanted, it calls value after each.
func replyItems[V any](x *call, r randomOptions, all []*item[V], value func(*item[V])) {
	if r.single {
		x.out.bulk(all[0].key)
		return
	}
	switch {
	case r.values && !x.out.resp3:
		x.out.array(2 * len(all))
	default:
		x.out.array(len(all))
	}
	for _, it := range all {
		if r.values && x.out.resp3 {
			x.out.array(2)
		}
		x.out.bulk(it.key)
		if r.values {
			value(it)
		}
	}
}

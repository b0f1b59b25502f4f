package redis

import (
	"math"
	"math/rand/v2"
)

// randomOptions are the arguments of HRANDFIELD, SRANDMEMBER and ZRANDMEMBER.
type randomOptions struct {
	// single is whether one element is wanted, instead of a list.
	single bool
	count  int64
	// repeat is whether an element may be returned more than once.
	repeat bool
	// values is whether values, or scores, are wanted too.
	values bool
}

// maxRepeated is the largest number of elements that may be repeated, which can be more than there are.
const maxRepeated = 1 << 20

// randomOptions reads the count and the word that asks for values, "" if there is none.
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

// randomItems returns random items of a dict that has some.
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

// distinctItems returns n different items, each of which is as likely as the others.
func distinctItems[V any](d *dict[V], n int) []*item[V] {
	total := d.Len()
	all := make([]*item[V], 0, n)
	if n*3 > total {
		i := 0
		d.all(func(it *item[V]) bool {
			// This one is taken with the probability that is left: those that are missing of those that remain.
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

// replyItems appends items, and what value appends for each of them if values are wanted.
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

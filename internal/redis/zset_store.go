package redis

import (
	"math"
	"slices"
	"strings"
)

// zsetStoreCommands has the commands that combine sorted sets.
var zsetStoreCommands = []*command{
	{name: "zunion", arity: -3, flags: flagReadonly | flagMovableKeys, keys: numberedKeys(1), run: zUnion, categories: "sortedset"},
	{name: "zinter", arity: -3, flags: flagReadonly | flagMovableKeys, keys: numberedKeys(1), run: zInter, categories: "sortedset"},
	{name: "zdiff", arity: -3, flags: flagReadonly | flagMovableKeys, keys: numberedKeys(1), run: zDiff, categories: "sortedset"},
	{name: "zunionstore", arity: -4, flags: writes | flagMovableKeys, keys: storeKeys, run: zUnionStore, categories: "sortedset"},
	{name: "zinterstore", arity: -4, flags: writes | flagMovableKeys, keys: storeKeys, run: zInterStore, categories: "sortedset"},
	{name: "zdiffstore", arity: -4, flags: writes | flagMovableKeys, keys: storeKeys, run: zDiffStore, categories: "sortedset"},
	{name: "zintercard", arity: -3, flags: flagReadonly | flagMovableKeys, keys: numberedKeys(1), run: zInterCard, categories: "sortedset"},
}

// storeKeys finds the keys in commands that combine a counted list of keys and store the result.
func storeKeys(args []string) []string {
	return append([]string{args[1]}, numberedKeys(2)(args)...)
}

// combination has the inputs and options for combining sorted sets.
type combination struct {
	sets       []weighted
	aggregate  func(a, b float64) float64
	withScores bool
}

// weighted is a set or sorted set with a factor for its scores.
type weighted struct {
	value  value // nil if there is none
	weight float64
}

// score returns a member's weighted score. In a set, each score is 1 before weighting.
func (w weighted) score(member string) (float64, bool) {
	score, ok := 1.0, false
	switch v := w.value.(type) {
	case *zset:
		score, ok = v.scores.get(member)
	case *members:
		ok = v.has(member)
	}
	return w.times(score), ok
}

// times multiplies a score by the weight. NaN becomes 0, as in Redis.
func (w weighted) times(score float64) float64 {
	score *= w.weight
	if math.IsNaN(score) {
		return 0
	}
	return score
}

func (w weighted) len() int {
	switch v := w.value.(type) {
	case *zset:
		return v.len()
	case *members:
		return v.count()
	}
	return 0
}

// all calls yield for each member and its weighted score, until yield returns false.
func (w weighted) all(yield func(scored) bool) {
	switch v := w.value.(type) {
	case *zset:
		v.order.Scan(func(m scored) bool { return yield(scored{w.times(m.score), m.member}) })
	case *members:
		v.all.all(func(it *item[none]) bool { return yield(scored{w.times(1), it.key}) })
	}
}

// inputs reads the number of keys from argument at, and the keys' sets. n is that number.
func (x *call) inputs(at int) (c combination, n int, err error) {
	count, err := x.int(at)
	if err != nil {
		return c, 0, err
	}
	if count < 1 {
		return c, 0, errorf("ERR at least 1 input key is needed for '%s' command", x.cmd.name)
	}
	if count > int64(len(x.args)-at-1) {
		return c, 0, errSyntax
	}
	n = int(count)
	for _, key := range x.args[at+1 : at+1+n] {
		w := weighted{weight: 1}
		if e := x.lookup(key); e != nil {
			if k := e.value.kind(); k != kindZSet && k != kindSet {
				return c, 0, errWrongType
			}
			w.value = e.value
		}
		c.sets = append(c.sets, w)
	}
	c.aggregate = sumScores
	return c, n, nil
}

// combination reads the number of keys from argument at, the keys, and the options. A plain one takes
// neither WEIGHTS nor AGGREGATE.
func (x *call) combination(at int, plain bool) (combination, error) {
	c, n, err := x.inputs(at)
	if err != nil {
		return c, err
	}
	err = x.combinationOptions(&c, at+1+n, plain)
	return c, err
}

// combinationOptions reads WEIGHTS, AGGREGATE and WITHSCORES.
func (x *call) combinationOptions(c *combination, from int, plain bool) error {
	for i := from; i < len(x.args); i++ {
		switch left := len(x.args) - i - 1; {
		case x.is(i, "WEIGHTS") && !plain && left >= len(c.sets):
			for n := range c.sets {
				i++
				weight, ok := parseFloat(x.args[i])
				if !ok {
					return errorf("ERR weight value is not a float")
				}
				c.sets[n].weight = weight
			}
		case x.is(i, "AGGREGATE") && !plain && left >= 1:
			i++
			switch strings.ToUpper(x.args[i]) {
			case "SUM":
				c.aggregate = sumScores
			case "MIN":
				c.aggregate = func(a, b float64) float64 { return min(a, b) }
			case "MAX":
				c.aggregate = func(a, b float64) float64 { return max(a, b) }
			default:
				return errSyntax
			}
		case x.is(i, "WITHSCORES") && !strings.HasSuffix(x.cmd.name, "store"):
			c.withScores = true
		default:
			return errSyntax
		}
	}
	return nil
}

// sumScores adds scores. The two infinities add up to 0, as in Redis.
func sumScores(a, b float64) float64 {
	sum := a + b
	if math.IsNaN(sum) {
		return 0
	}
	return sum
}

// union returns the members of all sets.
func (x *call) union(c combination) *zset {
	result := newZSet()
	for _, w := range c.sets {
		w.all(func(m scored) bool {
			if old, ok := result.scores.get(m.member); ok {
				m.score = c.aggregate(old, m.score)
			}
			x.collect(result, m)
			return true
		})
	}
	return result
}

// common calls visit for each member that all sets share, with its score, until visit returns false.
func (c combination) common(visit func(scored) bool) {
	slices.SortStableFunc(c.sets, func(a, b weighted) int { return a.len() - b.len() })
	c.sets[0].all(func(m scored) bool {
		for _, w := range c.sets[1:] {
			score, ok := w.score(m.member)
			if !ok {
				return true
			}
			m.score = c.aggregate(m.score, score)
		}
		return visit(m)
	})
}

// inter returns the members that all sets share.
func (x *call) inter(c combination) *zset {
	result := newZSet()
	c.common(func(m scored) bool {
		x.collect(result, m)
		return true
	})
	return result
}

// difference returns the first set's members that no other set has.
func (x *call) difference(c combination) *zset {
	result := newZSet()
	c.sets[0].all(func(m scored) bool {
		if !slices.ContainsFunc(c.sets[1:], func(w weighted) bool {
			_, ok := w.score(m.member)
			return ok
		}) {
			x.collect(result, m)
		}
		return true
	})
	return result
}

// combineScores applies f to the sorted sets and replies with the result.
func (x *call) combineScores(f func(combination) *zset, plain bool) error {
	c, err := x.combination(1, plain)
	if err != nil {
		return err
	}
	result := f(c)
	x.replyScored(result.slice(0, result.len()), c.withScores)
	return nil
}

// storeScores applies f to the sorted sets and stores the result.
func (x *call) storeScores(f func(combination) *zset, plain bool) error {
	c, err := x.combination(2, plain)
	if err != nil {
		return err
	}
	result := f(c)
	x.storeResult(x.args[1], result)
	return x.replyLen(result.len())
}

func zUnion(x *call) error { return x.combineScores(x.union, false) }

func zInter(x *call) error { return x.combineScores(x.inter, false) }

func zDiff(x *call) error { return x.combineScores(x.difference, true) }

func zUnionStore(x *call) error { return x.storeScores(x.union, false) }

func zInterStore(x *call) error { return x.storeScores(x.inter, false) }

func zDiffStore(x *call) error { return x.storeScores(x.difference, true) }

func zInterCard(x *call) error {
	c, n, err := x.inputs(1)
	if err != nil {
		return err
	}
	limit, err := x.limitOption(2 + n)
	if err != nil {
		return err
	}
	count := int64(0)
	c.common(func(scored) bool {
		count++
		return count < limit
	})
	return x.replyInt(count)
}

package redis

import (
	"math"
	"sort"
	"strings"
)

// scored is a sorted set's member with its score.
type scored struct {
	score  float64
	member string
}

func scoredLess(a, b scored) bool {
	return a.score < b.score || a.score == b.score && a.member < b.member
}

// zset is a sorted set: scores by member, and members by score.
type zset struct {
	scores dict[float64]
	order  tree[scored]
	// large reports whether the set has ever been too large for a listpack.
	large bool
}

func newZSet() *zset {
	return &zset{order: newTree(0, scoredLess)}
}

func (*zset) kind() kind { return kindZSet }

func (z *zset) encoding() string {
	if z.large {
		return "skiplist"
	}
	return "listpack"
}

func (z *zset) size() int64 { return 128 + z.scores.size() + 32*int64(z.scores.Len()) }

func (z *zset) empty() bool { return z.scores.Len() == 0 }

func (z *zset) appendTo(b []byte) []byte {
	large := uint64(0)
	if z.large {
		large = 1
	}
	b = appendUint(appendUint(b, large), uint64(z.len()))
	z.order.Scan(func(m scored) bool {
		b = appendString(appendFloat(b, m.score), m.member)
		return true
	})
	return b
}

func loadZSet(r *loader) value {
	z := newZSet()
	z.large = r.uint() != 0
	for range r.count() {
		score := r.float()
		if math.IsNaN(score) {
			r.fail()
		}
		z.put(r.string(), score)
	}
	return z
}

// len returns the number of members. z may be nil.
func (z *zset) len() int {
	if z == nil {
		return 0
	}
	return z.scores.Len()
}

// smallZSet is the largest set whose members are not ordered by hash.
const smallZSet = 64

// put sets a member's score, and reports whether the member is new.
func (z *zset) put(member string, score float64) bool {
	if it := z.scores.find(member); it != nil {
		if it.value != score || math.Signbit(it.value) != math.Signbit(score) {
			z.order.Delete(scored{it.value, it.key})
			it.value = score
			z.order.Set(scored{score, it.key})
		}
		return false
	}
	it := z.scores.add(member, score)
	if z.scores.Len() > smallZSet {
		z.scores.grow()
	}
	z.order.Set(scored{score, it.key})
	return true
}

// setScore is like put, for a set in the keyspace. It records that the set has outgrown a listpack. As
// in Redis, a listpack has no -0.
func (x *call) setScore(z *zset, member string, score float64) bool {
	if !z.large && (z.len() >= x.limits.zsetMaxListpackEntries || len(member) > x.limits.zsetMaxListpackValue) {
		z.large = z.scores.find(member) == nil
	}
	if !z.large {
		score += 0
	}
	return z.put(member, score)
}

// collect adds a member to a result that storeResult may store.
func (x *call) collect(z *zset, m scored) {
	z.put(m.member, m.score)
	if z.len() > x.limits.zsetMaxListpackEntries || len(m.member) > x.limits.zsetMaxListpackValue {
		z.large = true
	}
}

// storeResult stores a result, without -0 if it is a listpack.
func (x *call) storeResult(key string, z *zset) {
	if !z.large {
		for _, m := range z.slice(0, z.len()) {
			z.put(m.member, m.score+0)
		}
	}
	x.store(key, z)
}

// remove removes a member and reports whether there was one.
func (z *zset) remove(member string) bool {
	it := z.scores.delete(member)
	if it != nil {
		z.order.Delete(scored{it.value, it.key})
	}
	return it != nil
}

// rank returns a member's position; m has its score.
func (z *zset) rank(m scored) int {
	return z.search(func(other scored) bool { return !scoredLess(other, m) })
}

// search returns the first position at which f is true. f must be true from there on.
func (z *zset) search(f func(scored) bool) int {
	return sort.Search(z.order.Len(), func(i int) bool { return f(z.at(i)) })
}

// at returns the member at a position.
func (z *zset) at(i int) scored {
	m, _ := z.order.GetAt(i)
	return m
}

// addZSet adds an empty sorted set, to which the caller must add a member.
func (x *call) addZSet(key string) *entry {
	e := x.keys.add(key, newZSet())
	e.used = x.now
	return e
}

// zsetCommands has the sorted set commands.
var zsetCommands = append(append([]*command{
	{name: "zadd", arity: -4, flags: writesFast, first: 1, run: zAdd, categories: "sortedset"},
	{name: "zincrby", arity: 4, flags: writesFast, first: 1, run: zIncrBy, categories: "sortedset"},
	{name: "zrem", arity: -3, flags: flagWrite | flagFast, first: 1, run: withEntry(kindZSet, zRem), categories: "sortedset"},
	{name: "zcard", arity: 2, flags: readsFast, first: 1, run: withValue(zCard), categories: "sortedset"},
	{name: "zscore", arity: 3, flags: readsFast, first: 1, run: withValue(zScore), categories: "sortedset"},
	{name: "zmscore", arity: -3, flags: readsFast, first: 1, run: withValue(zMScore), categories: "sortedset"},
	{name: "zrank", arity: -3, flags: readsFast, first: 1, run: zRank, categories: "sortedset"},
	{name: "zrevrank", arity: -3, flags: readsFast, first: 1, run: zRank, categories: "sortedset"},
	{name: "zrandmember", arity: -2, flags: flagReadonly, first: 1, run: zRandMember, categories: "sortedset"},
	{name: "zscan", arity: -3, flags: flagReadonly, first: 1, run: zScan, categories: "sortedset"},
}, zsetRangeCommands...), zsetStoreCommands...)

// addOptions are ZADD's options.
type addOptions struct {
	onlyNew, onlyOld, greater, less, countChanges, increment bool
}

// addOptions reads the options, and returns the position after them.
func (x *call) addOptions() (o addOptions, end int) {
	for i := 2; i < len(x.args); i++ {
		switch strings.ToUpper(x.args[i]) {
		case "NX":
			o.onlyNew = true
		case "XX":
			o.onlyOld = true
		case "GT":
			o.greater = true
		case "LT":
			o.less = true
		case "CH":
			o.countChanges = true
		case "INCR":
			o.increment = true
		default:
			return o, i
		}
	}
	return o, len(x.args)
}

// check returns an error if options exclude each other.
func (o addOptions) check(pairs int) error {
	switch {
	case o.onlyNew && o.onlyOld:
		return errorf("ERR XX and NX options at the same time are not compatible")
	case o.greater && o.onlyNew || o.less && o.onlyNew || o.greater && o.less:
		return errorf("ERR GT, LT, and/or NX options at the same time are not compatible")
	case o.increment && pairs > 1:
		return errorf("ERR INCR option supports a single increment-element pair")
	}
	return nil
}

func zAdd(x *call) error {
	o, at := x.addOptions()
	return x.addScores(o, at)
}

func zIncrBy(x *call) error { return x.addScores(addOptions{increment: true}, 2) }

// addScores adds members or changes their scores. The pairs start at args[at].
func (x *call) addScores(o addOptions, at int) error {
	pairs := x.args[at:]
	if len(pairs) == 0 || len(pairs)%2 == 1 {
		return errSyntax
	}
	if err := o.check(len(pairs) / 2); err != nil {
		return err
	}
	scores := make([]float64, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		score, ok := parseFloat(pairs[i])
		if !ok {
			return errNotFloat
		}
		scores = append(scores, score)
	}
	e, err := x.lookupKind(x.args[1], kindZSet)
	if err != nil {
		return err
	}
	if e == nil && o.onlyOld {
		x.replyAdded(o, 0, nil)
		return nil
	}
	if e == nil {
		e = x.addZSet(x.args[1])
	}
	z := e.value.(*zset)
	added, updated := 0, 0
	var result *float64
	for i, score := range scores {
		r, err := x.addScore(z, o, scored{score, pairs[2*i+1]})
		if err != nil {
			return x.dropEmpty(e, err)
		}
		result = r.score
		added += r.added
		updated += r.updated
	}
	if added+updated > 0 {
		x.changed(e)
	} else if z.empty() {
		x.keys.remove(e)
	}
	if o.countChanges {
		added += updated
	}
	x.replyAdded(o, added, result)
	return nil
}

// replyAdded replies to ZADD: with INCR the new score, or nil if nothing was done, and otherwise a
// number.
func (x *call) replyAdded(o addOptions, n int, score *float64) {
	switch {
	case !o.increment:
		x.out.len(n)
	case score == nil:
		x.out.null()
	default:
		x.out.double(*score)
	}
}

// addResult is one member's outcome: added and updated are 0 or 1, and score is nil if nothing was
// done.
type addResult struct {
	added, updated int
	score          *float64
}

// addScore adds a member or changes its score, as far as the options allow.
func (x *call) addScore(z *zset, o addOptions, m scored) (addResult, error) {
	old, exists := z.scores.get(m.member)
	if exists && o.onlyNew || !exists && o.onlyOld {
		return addResult{}, nil
	}
	if exists && o.increment {
		m.score += old
		if math.IsNaN(m.score) {
			return addResult{}, errorf("ERR resulting score is not a number (NaN)")
		}
	}
	if exists && (o.greater && m.score <= old || o.less && m.score >= old) {
		return addResult{}, nil
	}
	r := addResult{score: &m.score}
	switch {
	case !exists:
		r.added = 1
	case old != m.score:
		r.updated = 1
	default:
		return r, nil
	}
	x.setScore(z, m.member, m.score)
	return r, nil
}

func zRem(x *call, e *entry) error {
	if e == nil {
		return x.replyInt(0)
	}
	n := 0
	for _, member := range x.args[2:] {
		if e.value.(*zset).remove(member) {
			n++
		}
	}
	if n > 0 {
		x.changed(e)
	}
	return x.replyLen(n)
}

func zCard(x *call, z *zset) error { return x.replyLen(z.len()) }

func zScore(x *call, z *zset) error {
	x.replyScore(z, x.args[2])
	return nil
}

// replyScore appends a member's score. z may be nil.
func (x *call) replyScore(z *zset, member string) {
	if z != nil {
		if score, ok := z.scores.get(member); ok {
			x.out.double(score)
			return
		}
	}
	x.out.null()
}

func zMScore(x *call, z *zset) error {
	x.out.array(len(x.args) - 2)
	for _, member := range x.args[2:] {
		x.replyScore(z, member)
	}
	return nil
}

// zRank runs ZRANK and ZREVRANK.
func zRank(x *call) error {
	if len(x.args) > 4 {
		return errorf("ERR wrong number of arguments for '%s' command", x.cmd.name)
	}
	withScore := len(x.args) == 4
	if withScore && !x.is(3, "WITHSCORE") {
		return errSyntax
	}
	z, err := find[*zset](x, x.args[1])
	if err != nil {
		return err
	}
	score, ok := 0.0, false
	if z != nil {
		score, ok = z.scores.get(x.args[2])
	}
	switch {
	case !ok && withScore:
		return x.replyNullArray()
	case !ok:
		return x.replyNull()
	case withScore:
		x.out.array(2)
	}
	rank := z.rank(scored{score, x.args[2]})
	if x.cmd.name == "zrevrank" {
		rank = z.len() - 1 - rank
	}
	x.out.len(rank)
	if withScore {
		x.out.double(score)
	}
	return nil
}

func zRandMember(x *call) error {
	r, err := x.randomOptions("WITHSCORES")
	if err != nil {
		return err
	}
	z, err := find[*zset](x, x.args[1])
	if err != nil {
		return err
	}
	if z == nil {
		x.replyNoRandom(r)
		return nil
	}
	replyItems(x, r, randomItems(&z.scores, r), func(it *item[float64]) { x.out.double(it.value) })
	return nil
}

func zScan(x *call) error {
	large := false
	scores := func(z *zset) *dict[float64] {
		large = z.large
		return &z.scores
	}
	return scanDict(x, scores, func(it *item[float64]) string {
		if !large && it.value == math.Trunc(it.value) && math.Abs(it.value) < math.MaxInt64/2 {
			return formatInt(int64(it.value)) // as a listpack stores it
		}
		return formatFloat(it.value)
	})
}

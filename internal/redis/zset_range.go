package redis

import (
	"slices"
	"strings"
)

// zsetRangeCommands has the commands for sorted sets' ranges and ends.
var zsetRangeCommands = []*command{
	{name: "zrange", arity: -4, flags: flagReadonly, first: 1, run: zRange, categories: "sortedset"},
	{name: "zrangestore", arity: -5, flags: writes, first: 1, last: 2, run: zRangeStore, categories: "sortedset"},
	{name: "zrevrange", arity: -4, flags: flagReadonly, first: 1, run: zRangeBy(rangeQuery{reverse: true}), categories: "sortedset"},
	{name: "zrangebyscore", arity: -4, flags: flagReadonly, first: 1, run: zRangeBy(rangeQuery{by: byScore}), categories: "sortedset"},
	{name: "zrevrangebyscore", arity: -4, flags: flagReadonly, first: 1, run: zRangeBy(rangeQuery{by: byScore, reverse: true}), categories: "sortedset"},
	{name: "zrangebylex", arity: -4, flags: flagReadonly, first: 1, run: zRangeBy(rangeQuery{by: byLex}), categories: "sortedset"},
	{name: "zrevrangebylex", arity: -4, flags: flagReadonly, first: 1, run: zRangeBy(rangeQuery{by: byLex, reverse: true}), categories: "sortedset"},
	{name: "zcount", arity: 4, flags: readsFast, first: 1, run: zCount(byScore), categories: "sortedset"},
	{name: "zlexcount", arity: 4, flags: readsFast, first: 1, run: zCount(byLex), categories: "sortedset"},
	{name: "zremrangebyrank", arity: 4, flags: flagWrite, first: 1, run: zRemRange(byRank), categories: "sortedset"},
	{name: "zremrangebyscore", arity: 4, flags: flagWrite, first: 1, run: zRemRange(byScore), categories: "sortedset"},
	{name: "zremrangebylex", arity: 4, flags: flagWrite, first: 1, run: zRemRange(byLex), categories: "sortedset"},
	{name: "zpopmin", arity: -2, flags: flagWrite | flagFast, first: 1, run: zPop, categories: "sortedset"},
	{name: "zpopmax", arity: -2, flags: flagWrite | flagFast, first: 1, run: zPop, categories: "sortedset"},
	{name: "zmpop", arity: -4, flags: flagWrite | flagMovableKeys, keys: numberedKeys(1), run: zMPop, categories: "sortedset"},
	{name: "bzpopmin", arity: -3, flags: flagWrite | flagFast | flagBlocking, first: 1, last: -2, run: bZPop, categories: "sortedset"},
	{name: "bzpopmax", arity: -3, flags: flagWrite | flagFast | flagBlocking, first: 1, last: -2, run: bZPop, categories: "sortedset"},
	{name: "bzmpop", arity: -5, flags: flagWrite | flagBlocking | flagMovableKeys, keys: numberedKeys(2), run: zMPop, categories: "sortedset"},
}

// order says how to read a range's bounds.
type order int

const (
	byRank order = iota
	byScore
	byLex
)

// rangeQuery selects a part of a sorted set.
type rangeQuery struct {
	by         order
	reverse    bool
	withScores bool
	// limited reports whether there is a LIMIT; a negative count means all.
	limited       bool
	offset, count int64
	// bounds returns the position of the range's first member, and the position after its last.
	bounds func(*zset) (from, to int)
}

func zRange(x *call) error {
	q, err := x.rangeQuery(rangeQuery{}, 2, true)
	if err != nil {
		return err
	}
	return x.replyRange(q)
}

// zRangeBy returns a command whose name implies some of ZRANGE's options.
func zRangeBy(q rangeQuery) func(x *call) error {
	return func(x *call) error {
		q, err := x.rangeQuery(q, 2, false)
		if err != nil {
			return err
		}
		return x.replyRange(q)
	}
}

func (x *call) replyRange(q rangeQuery) error {
	z, err := find[*zset](x, x.args[1])
	if err != nil {
		return err
	}
	x.replyScored(q.members(z), q.withScores)
	return nil
}

func zRangeStore(x *call) error {
	q, err := x.rangeQuery(rangeQuery{}, 3, true)
	if err != nil {
		return err
	}
	if q.withScores {
		return errSyntax
	}
	z, err := find[*zset](x, x.args[2])
	if err != nil {
		return err
	}
	result := newZSet()
	for _, m := range q.members(z) {
		x.setScore(result, m.member, m.score)
	}
	x.store(x.args[1], result)
	return x.replyLen(result.len())
}

// rangeQuery reads the bounds from argument at on, and the options after them. Only ZRANGE and
// ZRANGESTORE are general, and take the options that say how to read the bounds.
func (x *call) rangeQuery(q rangeQuery, at int, general bool) (rangeQuery, error) {
	q.count = -1
	for i := at + 2; i < len(x.args); i++ {
		switch word := strings.ToUpper(x.args[i]); {
		case word == "WITHSCORES" && x.cmd.name != "zrangestore":
			q.withScores = true
		case word == "LIMIT" && i+2 < len(x.args):
			offset, err := x.int(i + 1)
			if err != nil {
				return q, err
			}
			count, err := x.int(i + 2)
			if err != nil {
				return q, err
			}
			q.limited = true
			q.offset = offset
			q.count = count
			i += 2
		case word == "REV" && general && !q.reverse:
			q.reverse = true
		case word == "BYSCORE" && general && q.by == byRank:
			q.by = byScore
		case word == "BYLEX" && general && q.by == byRank:
			q.by = byLex
		default:
			return q, errSyntax
		}
	}
	if q.limited && q.count != -1 && q.by == byRank {
		return q, errorf("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
	}
	q.limited = q.limited && q.by != byRank
	if q.withScores && q.by == byLex {
		return q, errorf("ERR syntax error, WITHSCORES not supported in combination with BYLEX")
	}
	first, last := x.args[at], x.args[at+1]
	if q.reverse && q.by != byRank {
		first, last = last, first
	}
	var err error
	q.bounds, err = parseBounds(q.by, first, last, q.reverse)
	return q, err
}

// parseBounds returns a function that finds a range's positions in a sorted set.
func parseBounds(by order, first, last string, reverse bool) (func(*zset) (from, to int), error) {
	switch by {
	case byScore:
		return scoreBounds(first, last)
	case byLex:
		return lexBounds(first, last)
	}
	start, ok := parseInt(first)
	end, also := parseInt(last)
	if !ok || !also {
		return nil, errNotInt
	}
	return func(z *zset) (int, int) {
		n := int64(z.len())
		from, to := start, end
		if from < 0 {
			from = max(from+n, 0)
		}
		if to < 0 {
			to += n
		}
		if from > to || from >= n {
			return 0, 0
		}
		to = min(to, n-1)
		if reverse {
			from, to = n-1-to, n-1-from
		}
		return int(from), int(to) + 1
	}, nil
}

// scoreBounds parses bounds that are scores. A leading ( excludes a bound.
func scoreBounds(first, last string) (func(*zset) (from, to int), error) {
	least, exclusive, ok := parseScore(first)
	most, exclusive2, also := parseScore(last)
	if !ok || !also {
		return nil, errorf("ERR min or max is not a float")
	}
	return func(z *zset) (int, int) {
		from := z.search(func(m scored) bool { return m.score > least || m.score == least && !exclusive })
		to := z.search(func(m scored) bool { return m.score > most || m.score == most && exclusive2 })
		return from, max(from, to)
	}, nil
}

func parseScore(text string) (score float64, exclusive, ok bool) {
	text, exclusive = strings.CutPrefix(text, "(")
	score, ok = parsePrefix(text)
	return score, exclusive, ok
}

// lexBounds parses bounds that are members, for sets whose members all have the same score: - and + are
// the ends, [ includes the bound and ( excludes it.
func lexBounds(first, last string) (func(*zset) (from, to int), error) {
	from, ok := parseLex(first, '[')
	to, also := parseLex(last, '(')
	if !ok || !also {
		return nil, errorf("ERR min or max not valid string range item")
	}
	return func(z *zset) (int, int) {
		start := z.search(from)
		return start, max(start, z.search(to))
	}, nil
}

// parseLex returns a function that is true for the members after a bound. It is also true for the bound
// itself if that is written with the including character.
func parseLex(text string, including byte) (func(scored) bool, bool) {
	switch {
	case text == "-":
		return func(scored) bool { return true }, true
	case text == "+":
		return func(scored) bool { return false }, true
	case strings.HasPrefix(text, "["), strings.HasPrefix(text, "("):
		bound := text[1:]
		inclusive := text[0] == including
		return func(m scored) bool {
			return m.member > bound || m.member == bound && inclusive
		}, true
	}
	return nil, false
}

// members returns the range's members, in its order. z may be nil.
func (q rangeQuery) members(z *zset) []scored {
	if z == nil {
		return nil
	}
	from, to := q.bounds(z)
	if q.limited {
		from, to = q.limit(from, to)
	}
	all := z.slice(from, to)
	if q.reverse {
		slices.Reverse(all)
	}
	return all
}

// limit applies the offset and the count to a range.
func (q rangeQuery) limit(from, to int) (int, int) {
	n := int64(to - from)
	if q.offset < 0 || q.offset >= n {
		return 0, 0
	}
	count := n - q.offset
	if q.count >= 0 {
		count = min(count, q.count)
	}
	if q.reverse {
		to -= int(q.offset)
		return to - int(count), to
	}
	from += int(q.offset)
	return from, from + int(count)
}

// slice returns the members between two positions.
func (z *zset) slice(from, to int) []scored {
	if from >= to {
		return nil
	}
	all := make([]scored, 0, to-from)
	z.order.Ascend(z.at(from), func(m scored) bool {
		all = append(all, m)
		return len(all) < to-from
	})
	return all
}

// replyScored appends members, and their scores if wanted. RESP3 gets them in pairs.
func (x *call) replyScored(all []scored, withScores bool) {
	if withScores && !x.out.resp3 {
		x.out.array(2 * len(all))
	} else {
		x.out.array(len(all))
	}
	for _, m := range all {
		if withScores && x.out.resp3 {
			x.out.array(2)
		}
		x.out.bulk(m.member)
		if withScores {
			x.out.double(m.score)
		}
	}
}

// zCount returns a command that counts a range's members.
func zCount(by order) func(x *call) error {
	return func(x *call) error {
		bounds, err := parseBounds(by, x.args[2], x.args[3], false)
		if err != nil {
			return err
		}
		z, err := find[*zset](x, x.args[1])
		if err != nil {
			return err
		}
		if z == nil {
			return x.replyInt(0)
		}
		from, to := bounds(z)
		return x.replyLen(to - from)
	}
}

// zRemRange returns a command that removes a range's members.
func zRemRange(by order) func(x *call) error {
	return func(x *call) error {
		bounds, err := parseBounds(by, x.args[2], x.args[3], false)
		if err != nil {
			return err
		}
		e, err := x.lookupKind(x.args[1], kindZSet)
		if err != nil {
			return err
		}
		if e == nil {
			return x.replyInt(0)
		}
		z := e.value.(*zset)
		all := z.slice(bounds(z))
		x.removeScored(e, all)
		return x.replyLen(len(all))
	}
}

func (x *call) removeScored(e *entry, all []scored) {
	for _, m := range all {
		e.value.(*zset).remove(m.member)
	}
	if len(all) > 0 {
		x.changed(e)
	}
}

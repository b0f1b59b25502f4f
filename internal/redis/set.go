package redis

import (
	"math"
	"slices"
)

// none is the empty value in a set's dict.
type none struct{}

// members is a set value.
type members struct {
	all  dict[none]
	form setForm
}

// setForm is the form in which Redis would keep a set, for OBJECT ENCODING. Dumps contain these
// numbers.
type setForm uint64

// A set becomes a listpack once it gets a member that is no integer, and a hashtable once it grows
// large. It never changes back.
const (
	hashtable setForm = iota
	intset
	listpack
)

func newMembers() *members { return &members{form: intset} }

func (*members) kind() kind { return kindSet }

func (m *members) encoding() string {
	switch m.form {
	case intset:
		return "intset"
	case listpack:
		return "listpack"
	default:
		return "hashtable"
	}
}

func (m *members) size() int64 { return 64 + m.all.size() }

func (m *members) empty() bool { return m.all.Len() == 0 }

func (m *members) appendTo(b []byte) []byte {
	b = appendUint(appendUint(b, uint64(m.form)), uint64(m.all.Len()))
	m.all.all(func(it *item[none]) bool {
		b = appendString(b, it.key)
		return true
	})
	return b
}

func loadSet(r *loader) value {
	m := &members{form: setForm(r.uint())}
	for range r.count() {
		m.all.set(r.string(), none{})
		if m.all.Len() > smallSet {
			m.all.grow()
		}
	}
	return m
}

// smallSet is the largest set that keeps its insertion order.
const smallSet = 128

// addMember adds a member and reports whether it is new.
func (x *call) addMember(m *members, member string) bool {
	if !m.all.set(member, none{}) {
		return false
	}
	_, isInt := parseInt(member)
	n := m.all.Len()
	switch {
	case m.form == intset && isInt && n <= x.limits.setMaxIntsetEntries:
	case m.form == intset && isInt && n > 1, n > x.limits.setMaxListpackEntries, len(member) > x.limits.setMaxListpackValue:
		m.form = hashtable
	case m.form == intset:
		m.form = listpack
	}
	if m.all.Len() > smallSet {
		m.all.grow()
	}
	return true
}

func (m *members) names() []string {
	all := make([]string, 0, m.all.Len())
	m.all.all(func(it *item[none]) bool {
		all = append(all, it.key)
		return true
	})
	return all
}

// setCommands has the set commands.
var setCommands = []*command{
	{name: "sadd", arity: -3, flags: writesFast, first: 1, run: withEntry(kindSet, sAdd), categories: "set"},
	{name: "srem", arity: -3, flags: flagWrite | flagFast, first: 1, run: withEntry(kindSet, sRem), categories: "set"},
	{name: "smove", arity: 4, flags: flagWrite | flagFast, first: 1, last: 2, run: sMove, categories: "set"},
	{name: "sismember", arity: 3, flags: readsFast, first: 1, run: withValue(sIsMember), categories: "set"},
	{name: "smismember", arity: -3, flags: readsFast, first: 1, run: withValue(sMIsMember), categories: "set"},
	{name: "scard", arity: 2, flags: readsFast, first: 1, run: withValue(sCard), categories: "set"},
	{name: "smembers", arity: 2, flags: flagReadonly, first: 1, run: withValue(sMembers), categories: "set"},
	{name: "spop", arity: -2, flags: flagWrite | flagFast, first: 1, run: sPop, categories: "set"},
	{name: "srandmember", arity: -2, flags: flagReadonly, first: 1, run: sRandMember, categories: "set"},
	{name: "sinter", arity: -2, flags: flagReadonly, first: 1, last: -1, run: sInter, categories: "set"},
	{name: "sinterstore", arity: -3, flags: writes, first: 1, last: -1, run: sInterStore, categories: "set"},
	{name: "sintercard", arity: -3, flags: flagReadonly | flagMovableKeys, keys: numberedKeys(1), run: sInterCard, categories: "set"},
	{name: "sunion", arity: -2, flags: flagReadonly, first: 1, last: -1, run: sUnion, categories: "set"},
	{name: "sunionstore", arity: -3, flags: writes, first: 1, last: -1, run: sUnionStore, categories: "set"},
	{name: "sdiff", arity: -2, flags: flagReadonly, first: 1, last: -1, run: sDiff, categories: "set"},
	{name: "sdiffstore", arity: -3, flags: writes, first: 1, last: -1, run: sDiffStore, categories: "set"},
	{name: "sscan", arity: -3, flags: flagReadonly, first: 1, run: sScan, categories: "set"},
}

// numberedKeys returns a function that finds the keys in a command which counts them in argument at.
func numberedKeys(at int) func(args []string) []string {
	return func(args []string) []string {
		n, ok := parseInt(args[at])
		if !ok || n <= 0 || n > int64(len(args)-at-1) {
			return nil
		}
		return args[at+1 : at+1+int(n)]
	}
}

func sAdd(x *call, e *entry) error {
	if e == nil {
		e = x.keys.add(x.args[1], newMembers())
		e.used = x.now
	}
	n := 0
	for _, member := range x.args[2:] {
		if x.addMember(e.value.(*members), member) {
			n++
		}
	}
	if n > 0 {
		x.changed(e)
	}
	return x.replyLen(n)
}

func sRem(x *call, e *entry) error {
	if e == nil {
		return x.replyInt(0)
	}
	n := 0
	for _, member := range x.args[2:] {
		if e.value.(*members).all.delete(member) != nil {
			n++
		}
	}
	if n > 0 {
		x.changed(e)
	}
	return x.replyLen(n)
}

func sMove(x *call) error {
	from, err := x.lookupKind(x.args[1], kindSet)
	if from == nil && err == nil {
		return x.replyInt(0)
	}
	to, err2 := x.lookupKind(x.args[2], kindSet)
	if err != nil || err2 != nil {
		return errWrongType
	}
	member := x.args[3]
	if from == to {
		return x.replyFlag(from.value.(*members).all.find(member) != nil)
	}
	if from.value.(*members).all.delete(member) == nil {
		return x.replyInt(0)
	}
	x.changed(from)
	x.effect("srem", x.args[1], member)
	if to == nil {
		to = x.keys.add(x.args[2], newMembers())
	}
	if x.addMember(to.value.(*members), member) {
		x.changed(to)
		x.effect("sadd", x.args[2], member)
	}
	return x.replyInt(1)
}

func sIsMember(x *call, m *members) error { return x.replyFlag(m.has(x.args[2])) }

// has reports whether the set has a member. m may be nil.
func (m *members) has(member string) bool { return m != nil && m.all.find(member) != nil }

func sMIsMember(x *call, m *members) error {
	x.out.array(len(x.args) - 2)
	for _, member := range x.args[2:] {
		x.out.flag(m.has(member))
	}
	return nil
}

// count returns the number of members. m may be nil.
func (m *members) count() int {
	if m == nil {
		return 0
	}
	return m.all.Len()
}

func sCard(x *call, m *members) error { return x.replyLen(m.count()) }

func sMembers(x *call, m *members) error { return x.replySet(m) }

// replySet appends the set's members. m may be nil.
func (x *call) replySet(m *members) error {
	x.out.set(m.count())
	if m != nil {
		for _, name := range m.names() {
			x.out.bulk(name)
		}
	}
	return nil
}

func sPop(x *call) error {
	if len(x.args) > 3 {
		return errSyntax
	}
	count, err := x.popCount()
	if err != nil {
		return err
	}
	e, err := x.lookupKind(x.args[1], kindSet)
	if err != nil {
		return err
	}
	single := len(x.args) == 2
	if e == nil {
		if single {
			return x.replyNull()
		}
		x.out.set(0)
		return nil
	}
	m := e.value.(*members)
	popped := distinctItems(&m.all, int(min(count, int64(m.all.Len()))))
	removal := []string{"srem", x.args[1]}
	for _, it := range popped {
		m.all.delete(it.key)
		removal = append(removal, it.key)
	}
	if len(popped) > 0 {
		x.changed(e)
		x.effect(removal...)
	}
	if single {
		return x.replyBulk(popped[0].key)
	}
	x.out.set(len(popped))
	for _, it := range popped {
		x.out.bulk(it.key)
	}
	return nil
}

func sRandMember(x *call) error {
	r, err := x.randomOptions("")
	if err != nil {
		return err
	}
	m, err := find[*members](x, x.args[1])
	if err != nil {
		return err
	}
	if m == nil {
		x.replyNoRandom(r)
		return nil
	}
	replyItems(x, r, randomItems(&m.all, r), func(*item[none]) {})
	return nil
}

// sets returns the keys' sets; nil for a missing one.
func (x *call) sets(keys []string) ([]*members, error) {
	all := make([]*members, len(keys))
	for i, key := range keys {
		m, err := find[*members](x, key)
		if err != nil {
			return nil, err
		}
		all[i] = m
	}
	return all, nil
}

// intersection calls visit for each member that all sets share, until visit returns false.
func intersection(all []*members, visit func(member string) bool) {
	smallest := slices.MinFunc(all, func(a, b *members) int { return a.count() - b.count() })
	if smallest == nil {
		return
	}
	smallest.all.all(func(it *item[none]) bool {
		for _, m := range all {
			if !m.has(it.key) {
				return true
			}
		}
		return visit(it.key)
	})
}

// intersect returns the members that all sets share.
func (x *call) intersect(all []*members) *members {
	result := newMembers()
	intersection(all, func(member string) bool {
		x.addMember(result, member)
		return true
	})
	return result
}

// unite returns the members of all sets.
func (x *call) unite(all []*members) *members {
	result := newMembers()
	for _, m := range all {
		if m != nil {
			m.all.all(func(it *item[none]) bool {
				x.addMember(result, it.key)
				return true
			})
		}
	}
	return result
}

// subtract returns the first set's members that no other set has.
func (x *call) subtract(all []*members) *members {
	result := newMembers()
	if all[0] == nil {
		return result
	}
	all[0].all.all(func(it *item[none]) bool {
		if !slices.ContainsFunc(all[1:], func(m *members) bool { return m.has(it.key) }) {
			x.addMember(result, it.key)
		}
		return true
	})
	return result
}

// combine applies f to all keys' sets and replies with the result.
func (x *call) combine(f func([]*members) *members) error {
	all, err := x.sets(x.args[1:])
	if err != nil {
		return err
	}
	return x.replySet(f(all))
}

// combineStore applies f to the sets of all keys but the first, and stores the result there.
func (x *call) combineStore(f func([]*members) *members) error {
	all, err := x.sets(x.args[2:])
	if err != nil {
		return err
	}
	result := f(all)
	x.store(x.args[1], result)
	return x.replyLen(result.all.Len())
}

// store replaces a key's value, or deletes the key if the new value is empty.
func (x *call) store(key string, v value) {
	if v.empty() {
		if e := x.lookup(key); e != nil {
			x.remove(e)
			x.effect("del", key)
		}
		return
	}
	x.set(key, v)
	x.effectOf(key)
}

func sInter(x *call) error { return x.combine(x.intersect) }

func sUnion(x *call) error { return x.combine(x.unite) }

func sDiff(x *call) error { return x.combine(x.subtract) }

func sInterStore(x *call) error { return x.combineStore(x.intersect) }

func sUnionStore(x *call) error { return x.combineStore(x.unite) }

func sDiffStore(x *call) error { return x.combineStore(x.subtract) }

func sInterCard(x *call) error {
	n, ok := parseInt(x.args[1])
	if !ok || n <= 0 {
		return errorf("ERR numkeys should be greater than 0")
	}
	if n > int64(len(x.args)-2) {
		return errorf("ERR Number of keys can't be greater than number of args")
	}
	limit, err := x.limitOption(2 + int(n))
	if err != nil {
		return err
	}
	all, err := x.sets(x.args[2 : 2+n])
	if err != nil {
		return err
	}
	count := int64(0)
	intersection(all, func(string) bool {
		count++
		return count < limit
	})
	return x.replyInt(count)
}

// limitOption reads LIMIT and a number, starting at argument from. Without one, the limit is as good as
// none.
func (x *call) limitOption(from int) (int64, error) {
	limit := int64(0)
	for i := from; i < len(x.args); i += 2 {
		if !x.is(i, "LIMIT") || i+1 == len(x.args) {
			return 0, errSyntax
		}
		n, ok := parseInt(x.args[i+1])
		if !ok || n < 0 {
			return 0, errorf("ERR LIMIT can't be negative")
		}
		limit = n
	}
	if limit == 0 {
		limit = math.MaxInt64
	}
	return limit, nil
}

func sScan(x *call) error {
	return scanDict(x, func(m *members) *dict[none] { return &m.all }, nil)
}

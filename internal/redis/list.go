package redis

import (
	"math"
	"strings"

	"github.com/gammazero/deque"
)

// list is a list value.
type list struct {
	elements deque.Deque[string]
	// bytes counts the bytes in all elements.
	bytes int64
	// long reports whether the list has been too long for one listpack, and has not shrunk to half of
	// that since.
	long bool
}

func (*list) kind() kind { return kindList }

func (l *list) encoding() string {
	if l.long {
		return "quicklist"
	}
	return "listpack"
}

// listpackSizes has the sizes in bytes that list-max-listpack-size -1, -2 and so on stand for.
var listpackSizes = [...]int64{4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10}

// repack decides whether the list is long, by list-max-listpack-size: a number of elements, or a
// negative number that stands for a size.
func (l *list) repack(limit int) {
	length, bytes := int64(max(limit, 1)), int64(8<<10)
	if limit < 0 {
		length, bytes = math.MaxInt64, listpackSizes[min(-limit, len(listpackSizes))-1]
	}
	if l.long {
		length /= 2
		bytes /= 2
	}
	n := int64(l.elements.Len())
	l.long = n > length || l.bytes+2*n > bytes
}

func (l *list) size() int64 { return 128 + l.bytes + 24*int64(l.elements.Len()) }

func (l *list) empty() bool { return l.elements.Len() == 0 }

func (l *list) appendTo(b []byte) []byte {
	b = appendUint(b, uint64(l.elements.Len()))
	for i := range l.elements.Len() {
		b = appendString(b, l.elements.At(i))
	}
	return b
}

func loadList(r *loader) value {
	l := &list{}
	for range r.count() {
		l.push(false, r.string())
	}
	return l
}

// push adds an element at one end. The caller must own the string.
func (l *list) push(left bool, element string) {
	l.bytes += int64(len(element))
	if left {
		l.elements.PushFront(element)
	} else {
		l.elements.PushBack(element)
	}
}

// pop removes an element at one end. The list must not be empty.
func (l *list) pop(left bool) string {
	var element string
	if left {
		element = l.elements.PopFront()
	} else {
		element = l.elements.PopBack()
	}
	l.bytes -= int64(len(element))
	return element
}

// len returns the number of elements. l may be nil.
func (l *list) len() int {
	if l == nil {
		return 0
	}
	return l.elements.Len()
}

// listCommands has the list commands. list_move.go has those that move elements or block.
var listCommands = append([]*command{
	{name: "lpush", arity: -3, flags: writesFast, first: 1, run: withEntry(kindList, push), categories: "list"},
	{name: "rpush", arity: -3, flags: writesFast, first: 1, run: withEntry(kindList, push), categories: "list"},
	{name: "lpushx", arity: -3, flags: writesFast, first: 1, run: withEntry(kindList, push), categories: "list"},
	{name: "rpushx", arity: -3, flags: writesFast, first: 1, run: withEntry(kindList, push), categories: "list"},
	{name: "lpop", arity: -2, flags: flagWrite | flagFast, first: 1, run: pop, categories: "list"},
	{name: "rpop", arity: -2, flags: flagWrite | flagFast, first: 1, run: pop, categories: "list"},
	{name: "llen", arity: 2, flags: readsFast, first: 1, run: withValue(lLen), categories: "list"},
	{name: "lindex", arity: 3, flags: flagReadonly, first: 1, run: withValue(lIndex), categories: "list"},
	{name: "lset", arity: 4, flags: writes, first: 1, run: withEntry(kindList, lSet), categories: "list"},
	{name: "lrange", arity: 4, flags: flagReadonly, first: 1, run: lRange, categories: "list"},
	{name: "ltrim", arity: 4, flags: flagWrite, first: 1, run: lTrim, categories: "list"},
	{name: "lrem", arity: 4, flags: flagWrite, first: 1, run: lRem, categories: "list"},
	{name: "linsert", arity: 5, flags: writes, first: 1, run: lInsert, categories: "list"},
	{name: "lpos", arity: -3, flags: flagReadonly, first: 1, run: lPos, categories: "list"},
}, listMoveCommands...)

// push runs LPUSH, RPUSH, LPUSHX and RPUSHX.
func push(x *call, e *entry) error {
	if e == nil && strings.HasSuffix(x.cmd.name, "x") {
		return x.replyInt(0)
	}
	if e == nil {
		e = x.addList(x.args[1])
	}
	l := e.value.(*list)
	for _, element := range x.args[2:] {
		l.push(x.cmd.name[0] == 'l', strings.Clone(element))
	}
	x.changed(e)
	return x.replyLen(l.len())
}

// addList adds an empty list, to which the caller must add an element.
func (x *call) addList(key string) *entry {
	e := x.keys.add(key, &list{})
	e.used = x.now
	return e
}

// pop runs LPOP and RPOP.
func pop(x *call) error {
	if len(x.args) > 3 {
		return errorf("ERR wrong number of arguments for '%s' command", x.cmd.name)
	}
	count, err := x.popCount()
	if err != nil {
		return err
	}
	e, err := x.lookupKind(x.args[1], kindList)
	if err != nil {
		return err
	}
	single := len(x.args) == 2
	switch {
	case e == nil && single:
		x.out.null()
	case e == nil:
		x.out.nullArray()
	case single:
		x.out.bulk(e.value.(*list).pop(x.cmd.name == "lpop"))
		x.changed(e)
	default:
		x.replyPopped(e, x.cmd.name == "lpop", count)
	}
	return nil
}

// popCount reads the count in LPOP, SPOP, ZPOPMIN and the like, or returns 1 if there is none.
func (x *call) popCount() (int64, error) {
	if len(x.args) == 2 {
		return 1, nil
	}
	n, ok := parseInt(x.args[2])
	if !ok || n < 0 {
		return 0, errNegative
	}
	return n, nil
}

// replyPopped removes elements at one end and appends them to the reply.
func (x *call) replyPopped(e *entry, left bool, count int64) {
	l := e.value.(*list)
	n := int(min(count, int64(l.len())))
	x.out.array(n)
	for range n {
		x.out.bulk(l.pop(left))
	}
	if n > 0 {
		x.changed(e)
	}
}

func lLen(x *call, l *list) error { return x.replyLen(l.len()) }

// index resolves a position that may count from the end, and reports whether the list has it.
func (l *list) index(i int64) (int, bool) {
	n := int64(l.len())
	if i < 0 {
		i += n
	}
	return int(i), i >= 0 && i < n
}

func lIndex(x *call, l *list) error {
	if l == nil {
		return x.replyNull()
	}
	n, err := x.int(2)
	if err != nil {
		return err
	}
	if i, ok := l.index(n); ok {
		x.out.bulk(l.elements.At(i))
	} else {
		x.out.null()
	}
	return nil
}

func lSet(x *call, e *entry) error {
	if e == nil {
		return errNoSuchKey
	}
	n, err := x.int(2)
	if err != nil {
		return err
	}
	l := e.value.(*list)
	i, ok := l.index(n)
	if !ok {
		return errOutOfRange
	}
	l.bytes += int64(len(x.args[3]) - len(l.elements.At(i)))
	l.elements.Set(i, strings.Clone(x.args[3]))
	x.changed(e)
	return x.replyOK()
}

// span reads two arguments that select a part of n elements. It returns the first element's position
// and the position after the last.
func (x *call) span(at, n int) (from, to int, err error) {
	start, err := x.int(at)
	if err != nil {
		return 0, 0, err
	}
	end, err := x.int(at + 1)
	if err != nil {
		return 0, 0, err
	}
	if start < 0 {
		start = max(start+int64(n), 0)
	}
	if end < 0 {
		end += int64(n)
	}
	if start > end || start >= int64(n) {
		return 0, 0, nil
	}
	return int(start), int(min(end, int64(n)-1)) + 1, nil
}

func lRange(x *call) error {
	if _, _, err := x.span(2, 0); err != nil {
		return err
	}
	l, err := find[*list](x, x.args[1])
	if err != nil {
		return err
	}
	from, to, _ := x.span(2, l.len())
	x.out.array(to - from)
	for i := from; i < to; i++ {
		x.out.bulk(l.elements.At(i))
	}
	return nil
}

func lTrim(x *call) error {
	if _, _, err := x.span(2, 0); err != nil {
		return err
	}
	e, err := x.lookupKind(x.args[1], kindList)
	if err != nil {
		return err
	}
	if e == nil {
		return x.replyOK()
	}
	l := e.value.(*list)
	n := l.len()
	from, to, _ := x.span(2, n)
	for range n - to {
		l.pop(false)
	}
	for range from {
		l.pop(true)
	}
	if l.len() < n {
		x.changed(e)
	}
	return x.replyOK()
}

func lRem(x *call) error {
	count, err := x.int(2)
	if err != nil {
		return err
	}
	e, err := x.lookupKind(x.args[1], kindList)
	if err != nil {
		return err
	}
	if e == nil {
		return x.replyInt(0)
	}
	n := e.value.(*list).removeAll(x.args[3], count)
	if n > 0 {
		x.changed(e)
	}
	return x.replyLen(n)
}

// removeAll removes elements equal to another: all if count is 0, otherwise at most count, from the end
// if that is negative. It returns how many it removed.
func (l *list) removeAll(element string, count int64) int {
	most := l.len()
	if count > 0 {
		most = int(min(count, int64(most)))
	} else if count < 0 {
		most = int(min(-max(count, -int64(most)), int64(most)))
	}
	var kept deque.Deque[string]
	kept.Grow(l.len())
	removed := 0
	for i := range l.len() {
		if count < 0 {
			i = l.len() - 1 - i
		}
		v := l.elements.At(i)
		switch {
		case v == element && removed < most:
			removed++
			l.bytes -= int64(len(v))
		case count < 0:
			kept.PushFront(v)
		default:
			kept.PushBack(v)
		}
	}
	if removed > 0 {
		l.elements = kept
	}
	return removed
}

func lInsert(x *call) error {
	before := x.is(2, "BEFORE")
	if !before && !x.is(2, "AFTER") {
		return errSyntax
	}
	e, err := x.lookupKind(x.args[1], kindList)
	if err != nil {
		return err
	}
	if e == nil {
		return x.replyInt(0)
	}
	l := e.value.(*list)
	i := l.elements.Index(func(v string) bool { return v == x.args[3] })
	if i < 0 {
		return x.replyInt(-1)
	}
	if !before {
		i++
	}
	l.elements.Insert(i, strings.Clone(x.args[4]))
	l.bytes += int64(len(x.args[4]))
	x.changed(e)
	return x.replyLen(l.len())
}

// posOptions are LPOS's options.
type posOptions struct {
	rank, count, maxLen int64
	counted             bool
}

func (x *call) posOptions() (posOptions, error) {
	o := posOptions{rank: 1, count: 1}
	for i := 3; i < len(x.args); i += 2 {
		if i+1 == len(x.args) {
			return o, errSyntax
		}
		n, ok := parseInt(x.args[i+1])
		switch {
		case x.is(i, "RANK"):
			if !ok {
				return o, errNotInt
			}
			if n == 0 {
				return o, errorf("ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list")
			}
			if n == math.MinInt64 {
				n = -1 // Redis negates it in vain
			}
			o.rank = n
		case x.is(i, "COUNT"):
			if !ok || n < 0 {
				return o, errorf("ERR COUNT can't be negative")
			}
			o.count = n
			o.counted = true
		case x.is(i, "MAXLEN"):
			if !ok || n < 0 {
				return o, errorf("ERR MAXLEN can't be negative")
			}
			o.maxLen = n
		default:
			return o, errSyntax
		}
	}
	return o, nil
}

func lPos(x *call) error {
	o, err := x.posOptions()
	if err != nil {
		return err
	}
	l, err := find[*list](x, x.args[1])
	if err != nil {
		return err
	}
	found := l.positions(x.args[2], o)
	switch {
	case o.counted:
		x.out.array(len(found))
		for _, i := range found {
			x.out.len(i)
		}
	case len(found) > 0:
		x.out.len(found[0])
	default:
		x.out.null()
	}
	return nil
}

// positions returns an element's positions. l may be nil.
func (l *list) positions(element string, o posOptions) []int {
	n := l.len()
	steps := n
	if o.maxLen > 0 {
		steps = int(min(o.maxLen, int64(n)))
	}
	skip := max(o.rank, -o.rank) - 1
	var found []int
	for step := range steps {
		i := step
		if o.rank < 0 {
			i = n - 1 - step
		}
		if l.elements.At(i) != element {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		found = append(found, i)
		if o.count > 0 && int64(len(found)) == o.count {
			break
		}
	}
	return found
}

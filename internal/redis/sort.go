package redis

import (
	"cmp"
	"slices"
	"strings"
)

// sortCommands has SORT and SORT_RO.
var sortCommands = []*command{
	{name: "sort", arity: -2, flags: writes | flagMovableKeys, keys: sortKeys, run: sortKey, categories: "set sortedset list dangerous keyspace"},
	{name: "sort_ro", arity: -2, flags: flagReadonly | flagMovableKeys, first: 1, run: sortKey, categories: "set sortedset list dangerous keyspace"},
}

// sortKeys returns the key to sort, and the key that stores the result.
func sortKeys(args []string) []string {
	keys := []string{args[1]}
	for i := 2; i+1 < len(args); i++ {
		if strings.EqualFold(args[i], "STORE") {
			keys = append(keys[:1], args[i+1])
		}
	}
	return keys
}

// sortOptions are SORT's options.
type sortOptions struct {
	by         string
	hasBy      bool
	gets       []string
	limited    bool
	start, n   int64
	descending bool
	alpha      bool
	store      string
	stored     bool
}

// unsorted reports whether to keep the order: a BY pattern without * names no key.
func (o *sortOptions) unsorted() bool { return o.hasBy && !strings.Contains(o.by, "*") }

func (x *call) sortOptions() (o sortOptions, err error) {
	for i := 2; i < len(x.args); i++ {
		switch left := len(x.args) - i - 1; {
		case x.is(i, "ASC"):
			o.descending = false
		case x.is(i, "DESC"):
			o.descending = true
		case x.is(i, "ALPHA"):
			o.alpha = true
		case x.is(i, "LIMIT") && left >= 2:
			o.limited = true
			if o.start, err = x.int(i + 1); err != nil {
				return o, err
			}
			if o.n, err = x.int(i + 2); err != nil {
				return o, err
			}
			i += 2
		case x.is(i, "STORE") && left >= 1 && x.cmd.name == "sort":
			i++
			o.store = x.args[i]
			o.stored = true
		case x.is(i, "BY") && left >= 1:
			i++
			o.by = x.args[i]
			o.hasBy = true
		case x.is(i, "GET") && left >= 1:
			i++
			o.gets = append(o.gets, x.args[i])
		default:
			return o, errSyntax
		}
	}
	return o, nil
}

func sortKey(x *call) error {
	o, err := x.sortOptions()
	if err != nil {
		return err
	}
	e := x.lookup(x.args[1])
	all, err := x.sortElements(e, &o)
	if err != nil {
		return err
	}
	if all, err = x.sorted(all, &o); err != nil {
		return err
	}
	all = o.limit(all)
	results := x.sortResults(all, &o)
	if !o.stored {
		x.out.array(len(results))
		for _, r := range results {
			if r == nil {
				x.out.null()
			} else {
				x.out.bulk(*r)
			}
		}
		return nil
	}
	l := &list{}
	for _, r := range results {
		if r == nil {
			l.push(false, "")
		} else {
			l.push(false, strings.Clone(*r))
		}
	}
	x.store(o.store, l)
	return x.replyLen(len(results))
}

// sortElements returns the elements in a list, set or sorted set. If an unsorted set's result will be
// stored or read by a script, it sorts the set anyway, so that the result does not depend on hashes.
func (x *call) sortElements(e *entry, o *sortOptions) ([]string, error) {
	if e == nil {
		return nil, nil
	}
	switch v := e.value.(type) {
	case *list:
		return v.elements.AppendToSlice(nil), nil
	case *members:
		if o.unsorted() && (o.stored || x.script) {
			o.hasBy = false
			o.alpha = true
		}
		return v.names(), nil
	case *zset:
		if !v.large { // as in Redis, its encoding becomes skiplist
			v.large = true
			x.effectOf(e.key)
		}
		all := make([]string, 0, v.len())
		for _, m := range v.slice(0, v.len()) {
			all = append(all, m.member)
		}
		if o.unsorted() && o.descending {
			slices.Reverse(all)
		}
		return all, nil
	}
	return nil, errWrongType
}

// sortable is an element with its sort key.
type sortable struct {
	element string
	score   float64
	text    *string
}

// sorted sorts the elements.
func (x *call) sorted(all []string, o *sortOptions) ([]string, error) {
	if o.unsorted() {
		return all, nil
	}
	items := make([]sortable, len(all))
	for i, element := range all {
		items[i] = sortable{element: element, text: &element}
		if o.hasBy {
			items[i].text = x.lookupPattern(o.by, element)
		}
		if o.alpha || items[i].text == nil {
			continue
		}
		score, ok := parsePrefix(*items[i].text)
		if !ok {
			return nil, errorf("ERR One or more scores can't be converted into double")
		}
		items[i].score = score
	}
	slices.SortStableFunc(items, func(a, b sortable) int {
		c := a.compare(b, o)
		if o.descending {
			return -c
		}
		return c
	})
	for i, it := range items {
		all[i] = it.element
	}
	return all, nil
}

func (s sortable) compare(other sortable, o *sortOptions) int {
	if !o.alpha {
		return cmp.Or(cmp.Compare(s.score, other.score), strings.Compare(s.element, other.element))
	}
	switch {
	case s.text == nil && other.text == nil:
		return 0
	case s.text == nil:
		return -1
	case other.text == nil:
		return 1
	}
	return strings.Compare(*s.text, *other.text)
}

// lookupPattern returns the string that a BY or GET pattern names for an element: the key with *
// replaced, or with -> a field in that hash. It returns nil if there is none.
func (x *call) lookupPattern(pattern, element string) *string {
	if pattern == "#" {
		return &element
	}
	before, after, ok := strings.Cut(pattern, "*")
	if !ok {
		return nil
	}
	field := ""
	if i := strings.Index(after, "->"); i >= 0 && i+2 < len(after) {
		field = after[i+2:]
		after = after[:i]
	}
	e := x.lookup(before + element + after)
	if e == nil {
		return nil
	}
	switch v := e.value.(type) {
	case *str:
		if field == "" {
			return new(string(v.b))
		}
	case *hash:
		if text, ok := v.fields.get(field); ok && field != "" {
			return &text
		}
	}
	return nil
}

// limit applies LIMIT.
func (o *sortOptions) limit(all []string) []string {
	if !o.limited {
		return all
	}
	n := int64(len(all))
	start := min(max(o.start, 0), n)
	end := n
	if o.n >= 0 {
		end = min(n, start+min(o.n, n))
	}
	return all[start:end]
}

// sortResults returns the strings that GET names for each element, or the elements themselves.
func (x *call) sortResults(all []string, o *sortOptions) []*string {
	var results []*string
	for _, element := range all {
		if len(o.gets) == 0 {
			results = append(results, &element)
		}
		for _, pattern := range o.gets {
			results = append(results, x.lookupPattern(pattern, element))
		}
	}
	return results
}

package redis

import (
	"slices"
	"strings"
)

// stream is a stream value.
type stream struct {
	// nodes hold the entries in order. Only the last node may be empty.
	nodes  []*streamNode
	length int
	// last is the last generated ID, and deleted the greatest that XDEL has deleted.
	last, deleted streamID
	// added counts all entries ever added.
	added  int64
	groups map[string]*streamGroup
	bytes  int64
}

func (*stream) kind() kind { return kindStream }

func (*stream) encoding() string { return "stream" }

func (s *stream) size() int64 { return s.bytes + 128 }

func (*stream) empty() bool { return false }

// streamCommands has the stream commands.
var streamCommands = []*command{
	{name: "xadd", arity: -5, flags: writesFast, first: 1, last: 1, step: 1, run: xAdd, categories: "stream"},
	{name: "xlen", arity: 2, flags: readsFast, first: 1, last: 1, step: 1, run: xLen, categories: "stream"},
	{name: "xrange", arity: -4, flags: flagReadonly, first: 1, last: 1, step: 1, run: xRange, categories: "stream"},
	{name: "xrevrange", arity: -4, flags: flagReadonly, first: 1, last: 1, step: 1, run: xRevRange, categories: "stream"},
	{name: "xdel", arity: -3, flags: flagWrite | flagFast, first: 1, last: 1, step: 1, run: xDel, categories: "stream"},
	{name: "xtrim", arity: -4, flags: flagWrite, first: 1, last: 1, step: 1, run: xTrim, categories: "stream"},
	{name: "xsetid", arity: -3, flags: writesFast, first: 1, last: 1, step: 1, run: xSetID, categories: "stream"},
	{name: "xread", arity: -4, flags: flagReadonly | flagBlocking | flagMovableKeys, keys: streamKeys, run: xRead, categories: "stream"},
	{name: "xreadgroup", arity: -7, flags: flagWrite | flagBlocking | flagMovableKeys, keys: streamKeys, run: xReadGroup, categories: "stream"},
	{name: "xack", arity: -4, flags: flagWrite | flagFast, first: 1, last: 1, step: 1, run: xAck, categories: "stream"},
	{name: "xpending", arity: -3, flags: flagReadonly, first: 1, last: 1, step: 1, run: xPending, categories: "stream"},
	{name: "xclaim", arity: -6, flags: flagWrite | flagFast, first: 1, last: 1, step: 1, run: xClaim, categories: "stream"},
	{name: "xautoclaim", arity: -6, flags: flagWrite | flagFast, first: 1, last: 1, step: 1, run: xAutoClaim, categories: "stream"},
	{name: "xgroup", arity: -2, sub: []*command{
		{name: "xgroup|create", arity: -5, flags: writes, first: 2, last: 2, step: 1, run: xGroupCreate, categories: "stream"},
		{name: "xgroup|createconsumer", arity: 5, flags: writes, first: 2, last: 2, step: 1, run: xGroupCreateConsumer, categories: "stream"},
		{name: "xgroup|delconsumer", arity: 5, flags: flagWrite, first: 2, last: 2, step: 1, run: xGroupDelConsumer, categories: "stream"},
		{name: "xgroup|destroy", arity: 4, flags: flagWrite, first: 2, last: 2, step: 1, run: xGroupDestroy, categories: "stream"},
		{name: "xgroup|setid", arity: -5, flags: flagWrite, first: 2, last: 2, step: 1, run: xGroupSetID, categories: "stream"},
		{name: "xgroup|help", arity: 2, run: help, categories: "stream"},
	}},
	{name: "xinfo", arity: -2, sub: []*command{
		{name: "xinfo|stream", arity: -3, flags: flagReadonly, first: 2, last: 2, step: 1, run: xInfoStream, categories: "stream"},
		{name: "xinfo|groups", arity: 3, flags: flagReadonly, first: 2, last: 2, step: 1, run: xInfoGroups, categories: "stream"},
		{name: "xinfo|consumers", arity: 4, flags: flagReadonly, first: 2, last: 2, step: 1, run: xInfoConsumers, categories: "stream"},
		{name: "xinfo|help", arity: 2, run: help, categories: "stream"},
	}},
}

// streamKeys returns the keys for XREAD and XREADGROUP.
func streamKeys(args []string) []string {
	for i := 1; i < len(args); i++ {
		switch strings.ToLower(args[i]) {
		case "noack":
		case "block", "count":
			i++
		case "group":
			i += 2
		case "streams":
			rest := args[i+1:]
			return rest[:len(rest)/2]
		default:
			return nil
		}
	}
	return nil
}

// add adds an entry. Its ID must be greater than all others.
func (s *stream) add(id streamID, pairs []string, limits *encodings) {
	var n *streamNode
	if len(s.nodes) > 0 {
		n = s.nodes[len(s.nodes)-1]
	}
	if n != nil && n.full(totalLength(pairs), limits) {
		if len(n.entries) == 0 {
			s.removeNode(len(s.nodes) - 1)
		}
		n = nil
	}
	fields, values := copyPairs(pairs, n)
	if n == nil {
		n = newNode(id, fields)
		s.nodes = append(s.nodes, n)
		s.bytes += n.size()
	}
	n.add(id, fields, values)
	s.bytes += n.entrySize(&n.entries[len(n.entries)-1])
	s.last = id
	s.length++
	s.added++
}

// removeNode removes a node and its entries.
func (s *stream) removeNode(i int) {
	n := s.nodes[i]
	s.bytes -= n.size()
	for j := range n.entries {
		s.bytes -= n.entrySize(&n.entries[j])
	}
	s.length -= len(n.entries)
	if i == 0 {
		s.nodes[0] = nil
		s.nodes = s.nodes[1:]
		return
	}
	s.nodes = slices.Delete(s.nodes, i, i+1)
}

// removeEntries removes some entries from a node.
func (s *stream) removeEntries(n *streamNode, from, to int) {
	for j := from; j < to; j++ {
		s.bytes -= n.entrySize(&n.entries[j])
	}
	s.length -= to - from
	n.deleted += to - from
	n.entries = slices.Delete(n.entries, from, to)
}

// search returns the node and the position in it where an ID is or would be. The node is beyond the
// last one if all entries come before the ID.
func (s *stream) search(id streamID) (node, entry int, found bool) {
	node, _ = slices.BinarySearchFunc(s.nodes, id, (*streamNode).compareLast)
	if node == len(s.nodes) {
		return node, 0, false
	}
	entry, found = s.nodes[node].search(id)
	return node, entry, found
}

// find returns the entry with an ID, or nil.
func (s *stream) find(id streamID) *streamEntry {
	node, i, found := s.search(id)
	if !found {
		return nil
	}
	return &s.nodes[node].entries[i]
}

// remove deletes an entry, and reports whether there was one.
func (s *stream) remove(id streamID) bool {
	node, i, found := s.search(id)
	if !found {
		return false
	}
	n := s.nodes[node]
	s.removeEntries(n, i, i+1)
	if len(n.entries) == 0 {
		s.removeNode(node)
	}
	if s.deleted.less(id) {
		s.deleted = id
	}
	return true
}

// ascend calls visit for the entries from an ID on, until visit returns false.
func (s *stream) ascend(from streamID, visit func(*streamEntry) bool) {
	node, i, _ := s.search(from)
	for ; node < len(s.nodes); node++ {
		entries := s.nodes[node].entries
		for ; i < len(entries); i++ {
			if !visit(&entries[i]) {
				return
			}
		}
		i = 0
	}
}

// descend calls visit for the entries from an ID down, until visit returns false.
func (s *stream) descend(from streamID, visit func(*streamEntry) bool) {
	node, i, found := s.search(from)
	if found {
		i++
	}
	if node == len(s.nodes) {
		node--
		if node >= 0 {
			i = len(s.nodes[node].entries)
		}
	}
	for ; node >= 0; node-- {
		entries := s.nodes[node].entries
		for i--; i >= 0; i-- {
			if !visit(&entries[i]) {
				return
			}
		}
		if node > 0 {
			i = len(s.nodes[node-1].entries)
		}
	}
}

// first returns the first entry, or nil.
func (s *stream) first() *streamEntry {
	if s.length == 0 {
		return nil
	}
	return &s.nodes[0].entries[0]
}

// final returns the last entry, or nil.
func (s *stream) final() *streamEntry {
	var last *streamEntry
	s.descend(maxStreamID, func(e *streamEntry) bool {
		last = e
		return false
	})
	return last
}

// firstID returns the first entry's ID, or 0-0.
func (s *stream) firstID() streamID {
	if e := s.first(); e != nil {
		return e.id
	}
	return streamID{}
}

// updated is like changed, for changes that give blocked clients nothing to read.
func (x *call) updated(e *entry) {
	x.keys.charge(e)
	x.touched(e.key)
}

// groupsChanged is like changed, for consumer groups and IDs. Their changes do not break transactions,
// but clients may have cached a description of them.
func (x *call) groupsChanged(e *entry) {
	x.keys.charge(e)
	x.changes++
	x.note(e.key)
	x.invalidate(e.key, x.running)
}

// lookupStream returns a key's entry and stream, nil if there is none, or errWrongType.
func (x *call) lookupStream(key string) (*entry, *stream, error) {
	e, err := x.lookupKind(key, kindStream)
	if e == nil || err != nil {
		return nil, nil, err
	}
	return e, e.value.(*stream), nil
}

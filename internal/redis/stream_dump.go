package redis

import "math"

func appendID(b []byte, id streamID) []byte { return appendUint(appendUint(b, id.ms), id.seq) }

func (r *loader) streamID() streamID { return streamID{ms: r.uint(), seq: r.uint()} }

func appendStrings(b []byte, all []string) []byte {
	b = appendUint(b, uint64(len(all)))
	for _, s := range all {
		b = appendString(b, s)
	}
	return b
}

// strings reads a list of strings.
func (r *loader) strings() []string {
	var all []string
	for n := r.count(); n > 0 && !r.bad; n-- {
		all = append(all, r.string())
	}
	return all
}

// appendTo appends the nodes with their entries, the facts about entries that are gone, and the groups.
func (s *stream) appendTo(b []byte) []byte {
	b = appendUint(b, uint64(len(s.nodes)))
	for _, n := range s.nodes {
		b = n.appendTo(b)
	}
	b = appendID(b, s.last)
	b = appendID(b, s.deleted)
	b = appendInt(b, s.added)
	b = appendUint(b, uint64(len(s.groups)))
	for g := range ordered(s.groups) {
		b = g.appendTo(b)
	}
	return b
}

// appendTo appends a node. An entry that has the node's fields gets an empty list.
func (n *streamNode) appendTo(b []byte) []byte {
	b = appendID(b, n.first)
	b = appendID(b, n.last)
	b = appendStrings(b, n.fields)
	b = appendUint(b, uint64(n.deleted))
	b = appendUint(b, uint64(n.packed))
	b = appendUint(b, uint64(len(n.entries)))
	for _, e := range n.entries {
		b = appendID(b, e.id)
		if shared(e.fields, n.fields) {
			b = appendUint(b, 0)
		} else {
			b = appendStrings(b, e.fields)
		}
		b = appendStrings(b, e.values)
	}
	return b
}

// appendTo appends a group. Its consumers hold all its pending entries.
func (g *streamGroup) appendTo(b []byte) []byte {
	b = appendString(b, g.name)
	b = appendID(b, g.last)
	b = appendInt(b, g.read)
	b = appendUint(b, uint64(len(g.consumers)))
	for c := range ordered(g.consumers) {
		b = appendString(b, c.name)
		b = appendInt(b, c.seen)
		b = appendInt(b, c.active)
		b = appendUint(b, uint64(c.pending.Len()))
		c.pending.Scan(func(p *pendingEntry) bool {
			b = appendID(b, p.id)
			b = appendInt(b, p.delivered)
			b = appendUint(b, p.count)
			return true
		})
	}
	return b
}

func loadStream(r *loader) value {
	s := &stream{}
	for left := r.count(); left > 0 && !r.bad; left-- {
		n := loadNode(r)
		s.nodes = append(s.nodes, n)
		s.length += len(n.entries)
		s.bytes += n.size()
		for i := range n.entries {
			s.bytes += n.entrySize(&n.entries[i])
		}
	}
	s.last = r.streamID()
	s.deleted = r.streamID()
	s.added = r.int()
	for left := r.count(); left > 0 && !r.bad; left-- {
		s.loadGroup(r)
	}
	if !s.ordered() {
		r.fail()
	}
	return s
}

func loadNode(r *loader) *streamNode {
	n := &streamNode{first: r.streamID(), last: r.streamID(), fields: r.strings()}
	n.deleted = int(r.uint() & math.MaxInt32)
	n.packed = int(r.uint() & math.MaxInt32)
	for left := r.count(); left > 0 && !r.bad; left-- {
		e := streamEntry{id: r.streamID(), fields: r.strings(), values: r.strings()}
		if len(e.fields) == 0 {
			e.fields = n.fields
		}
		if len(e.fields) != len(e.values) {
			r.fail()
		}
		n.entries = append(n.entries, e)
	}
	return n
}

// loadGroup reads a group.
func (s *stream) loadGroup(r *loader) {
	g := s.addGroup(r.string(), r.streamID(), r.int())
	for consumers := r.count(); consumers > 0 && !r.bad; consumers-- {
		c := s.consumer(g, r.string(), r.int())
		c.active = c.seen
		if r.version >= 2 {
			c.active = r.int()
		}
		for entries := r.count(); entries > 0 && !r.bad; entries-- {
			p := s.deliver(g, c, r.streamID())
			p.delivered = r.int()
			p.count = r.uint()
		}
	}
}

// ordered reports whether the nodes and entries are in order, and no node but the last is empty.
func (s *stream) ordered() bool {
	var last streamID
	for i, n := range s.nodes {
		if len(n.entries) == 0 && i < len(s.nodes)-1 {
			return false
		}
		for _, e := range n.entries {
			if !last.less(e.id) {
				return false
			}
			last = e.id
		}
	}
	return !s.last.less(last)
}

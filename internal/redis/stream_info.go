package redis

// infoStream returns the stream that an XINFO subcommand names.
func (x *call) infoStream() (*stream, error) {
	s, err := find[*stream](x, x.args[2])
	if err == nil && s == nil {
		err = errNoSuchKey
	}
	return s, err
}

// fullCount is the number of entries that XINFO STREAM FULL returns by default.
const fullCount = 10

func xInfoStream(x *call) error {
	s, err := x.infoStream()
	if err != nil {
		return err
	}
	if len(x.args) == 3 {
		x.out.streamSummary(s)
		return nil
	}
	if len(x.args) != 4 && len(x.args) != 6 || !x.is(3, "full") || len(x.args) == 6 && !x.is(4, "count") {
		return x.badSubcommand("XINFO")
	}
	count := int64(fullCount)
	if len(x.args) == 6 {
		if count, err = x.int(5); err != nil {
			return err
		}
	}
	if count < 0 {
		count = fullCount
	}
	x.out.fullStream(s, count)
	return nil
}

// streamFacts appends the seven pairs that XINFO STREAM shows with and without FULL. We have no radix
// tree, so we make up the number of its nodes.
func (r *reply) streamFacts(s *stream) {
	r.values(
		"length", s.length, "radix-tree-keys", len(s.nodes), "radix-tree-nodes", len(s.nodes)+1,
		"last-generated-id", s.last, "max-deleted-entry-id", s.deleted, "entries-added", s.added,
		"recorded-first-entry-id", s.firstID(),
	)
}

func (r *reply) streamSummary(s *stream) {
	r.mapOf(10)
	r.streamFacts(s)
	r.values("groups", len(s.groups), "first-entry")
	r.streamEntryOrNull(s.first())
	r.bulk("last-entry")
	r.streamEntryOrNull(s.final())
}

func (r *reply) streamEntryOrNull(e *streamEntry) {
	if e == nil {
		r.null()
		return
	}
	r.streamEntry(e)
}

// fullStream appends a stream with its first entries and its groups. A count of 0 means all entries.
func (r *reply) fullStream(s *stream, count int64) {
	r.mapOf(9)
	r.streamFacts(s)
	r.bulk("entries")
	r.streamEntries(s.entries(streamID{}, maxStreamID, count))
	r.bulk("groups")
	r.array(len(s.groups))
	for g := range ordered(s.groups) {
		r.fullGroup(s, g, count)
	}
}

func (r *reply) fullGroup(s *stream, g *streamGroup, count int64) {
	r.mapOf(7)
	r.bulk("name")
	r.bulk(g.name)
	r.groupProgress(s, g)
	r.values("pel-count", g.pending.Len(), "pending")
	r.array(limited(g.pending.Len(), count))
	g.pending.Scan(limit(count, func(p *pendingEntry) {
		r.array(4)
		r.values(p.id, p.consumer.name, p.delivered, int64(p.count))
	}))
	r.bulk("consumers")
	r.array(len(g.consumers))
	for c := range ordered(g.consumers) {
		r.fullConsumer(c, count)
	}
}

func (r *reply) fullConsumer(c *streamConsumer, count int64) {
	r.mapOf(5)
	r.values(
		"name", c.name, "seen-time", c.seen, "active-time", c.active, "pel-count", c.pending.Len(),
		"pending",
	)
	r.array(limited(c.pending.Len(), count))
	c.pending.Scan(limit(count, func(p *pendingEntry) {
		r.array(3)
		r.values(p.id, p.delivered, int64(p.count))
	}))
}

// limited caps n at count, unless that is 0.
func limited(n int, count int64) int {
	if count == 0 {
		return n
	}
	return int(min(int64(n), count))
}

// limit returns a function that calls visit, and returns false after count calls, unless that is 0.
func limit(count int64, visit func(*pendingEntry)) func(*pendingEntry) bool {
	visited := int64(0)
	return func(p *pendingEntry) bool {
		visit(p)
		visited++
		return visited != count
	}
}

// groupProgress appends a group's progress: three pairs.
func (r *reply) groupProgress(s *stream, g *streamGroup) {
	r.values("last-delivered-id", g.last, "entries-read")
	if g.read == unknownRead {
		r.null()
	} else {
		r.int(g.read)
	}
	r.bulk("lag")
	if lag, known := s.lag(g); known {
		r.int(lag)
	} else {
		r.null()
	}
}

func xInfoGroups(x *call) error {
	s, err := x.infoStream()
	if err != nil {
		return err
	}
	x.out.array(len(s.groups))
	for g := range ordered(s.groups) {
		x.out.mapOf(6)
		x.out.values("name", g.name, "consumers", len(g.consumers), "pending", g.pending.Len())
		x.out.groupProgress(s, g)
	}
	return nil
}

func xInfoConsumers(x *call) error {
	s, err := x.infoStream()
	if err != nil {
		return err
	}
	g := s.group(x.args[3])
	if g == nil {
		return errorf("NOGROUP No such consumer group '%s' for key name '%s'", x.args[3], x.args[2])
	}
	x.out.array(len(g.consumers))
	for c := range ordered(g.consumers) {
		x.out.mapOf(4)
		x.out.values(
			"name", c.name, "pending", c.pending.Len(), "idle", max(x.now-c.seen, 0),
			"inactive", c.inactive(x.now),
		)
	}
	return nil
}

package redis

import "strings"

// streamGroup is a stream's consumer group.
type streamGroup struct {
	name string
	// last is the last delivered ID. read counts the entries that the group had read by then, or is
	// unknownRead.
	last streamID
	read int64
	// pending has the entries delivered but not acknowledged.
	pending   tree[*pendingEntry]
	consumers map[string]*streamConsumer
}

// streamConsumer is a group's consumer.
type streamConsumer struct {
	name string
	// seen is the time the consumer last asked for entries, in milliseconds, and active the time it last
	// got or claimed any, or neverActive.
	seen, active int64
	pending      tree[*pendingEntry]
}

// pendingEntry is an entry that a consumer has received but not acknowledged.
type pendingEntry struct {
	id       streamID
	consumer *streamConsumer
	// delivered is the time it was last delivered, in milliseconds. count says how many times it was.
	delivered int64
	count     uint64
}

// neverActive means that a consumer has not got entries yet.
const neverActive = -1

// unknownRead means that we do not know how many entries a group has read.
const unknownRead = -1

// Estimated memory for groups, consumers and pending entries, without their names.
const (
	streamGroupOverhead  = 256
	pendingEntryOverhead = 80
)

const errGroupNeedsKey replyError = "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically."

func newPending() tree[*pendingEntry] {
	less := func(a, b *pendingEntry) bool { return a.id.less(b.id) }
	return newTree(16, less)
}

// group returns a consumer group, or nil.
func (s *stream) group(name string) *streamGroup { return s.groups[name] }

func (s *stream) addGroup(name string, last streamID, read int64) *streamGroup {
	g := &streamGroup{name: strings.Clone(name), last: last, read: read, pending: newPending(), consumers: map[string]*streamConsumer{}}
	if s.groups == nil {
		s.groups = map[string]*streamGroup{}
	}
	s.groups[g.name] = g
	s.bytes += streamGroupOverhead + int64(len(name))
	return g
}

func (s *stream) removeGroup(g *streamGroup) {
	delete(s.groups, g.name)
	for _, c := range g.consumers {
		s.bytes -= streamGroupOverhead + int64(len(c.name))
	}
	s.bytes -= int64(g.pending.Len()) * pendingEntryOverhead
	s.bytes -= streamGroupOverhead + int64(len(g.name))
}

// addConsumer adds a consumer to a group.
func (s *stream) addConsumer(g *streamGroup, name string, now int64) *streamConsumer {
	c := &streamConsumer{name: strings.Clone(name), seen: now, active: neverActive, pending: newPending()}
	g.consumers[c.name] = c
	s.bytes += streamGroupOverhead + int64(len(name))
	return c
}

// consumer returns the consumer that asks for entries. It creates a missing one.
func (s *stream) consumer(g *streamGroup, name string, now int64) *streamConsumer {
	c, found := g.consumers[name]
	if !found {
		return s.addConsumer(g, name, now)
	}
	c.seen = now
	return c
}

// inactive returns how long ago the consumer was active, in milliseconds, or neverActive.
func (c *streamConsumer) inactive(now int64) int64 {
	if c.active == neverActive {
		return neverActive
	}
	return max(now-c.active, 0)
}

// findPending returns a group's pending entry, or nil.
func (g *streamGroup) findPending(id streamID) *pendingEntry {
	p, _ := g.pending.Get(&pendingEntry{id: id})
	return p
}

// deliver makes an entry pending for a consumer, and returns it. The caller sets its time and count.
func (s *stream) deliver(g *streamGroup, c *streamConsumer, id streamID) *pendingEntry {
	p := g.findPending(id)
	if p == nil {
		p = &pendingEntry{id: id}
		g.pending.Set(p)
		s.bytes += pendingEntryOverhead
	}
	if p.consumer == c {
		return p
	}
	if p.consumer != nil {
		p.consumer.pending.Delete(p)
	}
	p.consumer = c
	c.pending.Set(p)
	return p
}

// acknowledge removes a pending entry, and reports whether there was one.
func (s *stream) acknowledge(g *streamGroup, id streamID) bool {
	p := g.findPending(id)
	if p == nil {
		return false
	}
	g.pending.Delete(p)
	p.consumer.pending.Delete(p)
	s.bytes -= pendingEntryOverhead
	return true
}

// advance records that a group has read up to an entry.
func (s *stream) advance(g *streamGroup, id streamID) {
	switch {
	case g.read != unknownRead && !s.hasDeletedFrom(id):
		g.read++
	case s.added > 0:
		g.read = s.estimateRead(id)
	}
	g.last = id
}

// hasDeletedFrom reports whether XDEL may have deleted an entry at or after an ID, beyond the first
// entry.
func (s *stream) hasDeletedFrom(id streamID) bool {
	return s.length > 0 && s.fragmented() && !s.deleted.less(id)
}

// fragmented reports whether XDEL may have deleted an entry after the first one.
func (s *stream) fragmented() bool {
	return s.deleted != (streamID{}) && !s.deleted.less(s.firstID())
}

// estimateRead returns how many entries were added up to an ID, or unknownRead.
func (s *stream) estimateRead(id streamID) int64 {
	switch {
	case s.added == 0:
		return 0
	case s.length == 0 && !s.last.less(id):
		return s.added
	case id == s.last:
		return s.added
	case s.last.less(id):
		return unknownRead
	}
	if s.fragmented() {
		return unknownRead
	}
	switch id.compare(s.firstID()) {
	case -1:
		return s.added - int64(s.length)
	case 0:
		return s.added - int64(s.length) + 1
	}
	return unknownRead
}

// lag returns how many entries a group has not read, and whether we know that.
func (s *stream) lag(g *streamGroup) (int64, bool) {
	if s.added == 0 {
		return 0, true
	}
	if g.read != unknownRead && !s.hasDeletedFrom(g.last) {
		return s.added - g.read, true
	}
	read := s.estimateRead(g.last)
	return s.added - read, read != unknownRead
}

// groupOptions reads the options for XGROUP CREATE and SETID.
func (x *call) groupOptions(create bool) (mkStream bool, read int64, err error) {
	read = unknownRead
	for i := 5; i < len(x.args); i++ {
		switch {
		case create && x.is(i, "mkstream"):
			mkStream = true
		case x.is(i, "entriesread") && i+1 < len(x.args):
			i++
			read, err = x.int(i)
			if err != nil {
				return false, 0, err
			}
			if read < unknownRead && !x.replaying { // a number that is too large has wrapped around, as in Redis
				return false, 0, errorf("ERR value for ENTRIESREAD must be positive or -1")
			}
		default:
			return false, 0, x.badSubcommand("XGROUP")
		}
	}
	return mkStream, read, nil
}

// badSubcommand returns the error for options that a subcommand does not have.
func (x *call) badSubcommand(command string) error {
	return errorf("ERR unknown subcommand or wrong number of arguments for '%s'. Try %s HELP.", clip(x.args[1], 128), command)
}

// groupID parses an ID. "$" stands for the stream's last; s may be nil.
func (s *stream) groupID(text string, parse func(string, uint64) (streamID, error)) (streamID, error) {
	switch {
	case text != "$":
		return parse(text, 0)
	case s == nil:
		return streamID{}, nil
	}
	return s.last, nil
}

func xGroupCreate(x *call) error {
	mkStream, read, err := x.groupOptions(true)
	if err != nil {
		return err
	}
	e, s, err := x.lookupStream(x.args[2])
	if err != nil {
		return err
	}
	if s == nil && !mkStream {
		return errGroupNeedsKey
	}
	id, err := s.groupID(x.args[4], parseStreamID)
	if err != nil {
		return err
	}
	if s == nil {
		s = &stream{}
		e = x.set(x.args[2], s)
	}
	if s.group(x.args[3]) != nil {
		return errorf("BUSYGROUP Consumer Group name already exists")
	}
	s.addGroup(x.args[3], id, read)
	x.groupsChanged(e)
	return x.replyOK()
}

// lookupGroup returns the stream and the group that an XGROUP subcommand names.
func (x *call) lookupGroup() (*entry, *stream, *streamGroup, error) {
	e, s, err := x.lookupStream(x.args[2])
	if err != nil {
		return nil, nil, nil, err
	}
	if s == nil {
		return nil, nil, nil, errGroupNeedsKey
	}
	g := s.group(x.args[3])
	if g == nil {
		err = errorf("NOGROUP No such consumer group '%s' for key name '%s'", x.args[3], x.args[2])
	}
	return e, s, g, err
}

func xGroupSetID(x *call) error {
	_, read, err := x.groupOptions(false)
	if err != nil {
		return err
	}
	e, s, g, err := x.lookupGroup()
	if err != nil {
		return err
	}
	id, err := s.groupID(x.args[4], parseRangeID)
	if err != nil {
		return err
	}
	g.last = id
	g.read = read
	x.groupsChanged(e)
	return x.replyOK()
}

func xGroupDestroy(x *call) error {
	e, s, err := x.lookupStream(x.args[2])
	if err != nil {
		return err
	}
	if s == nil {
		return errGroupNeedsKey
	}
	g := s.group(x.args[3])
	if g != nil {
		s.removeGroup(g)
		x.groupsChanged(e)
		if x.waiting[e.key] != nil {
			x.signal(e.key) // tell the group's blocked readers that it is gone
		}
	}
	return x.replyFlag(g != nil)
}

func xGroupCreateConsumer(x *call) error {
	e, s, g, err := x.lookupGroup()
	if err != nil {
		return err
	}
	_, found := g.consumers[x.args[4]]
	if !found {
		c := s.addConsumer(g, x.args[4], x.now)
		x.effectSeen(e.key, g, c)
		x.groupsChanged(e)
	}
	return x.replyFlag(!found)
}

func xGroupDelConsumer(x *call) error {
	e, s, g, err := x.lookupGroup()
	if err != nil {
		return err
	}
	c, found := g.consumers[x.args[4]]
	if !found {
		return x.replyInt(0)
	}
	c.pending.Scan(func(p *pendingEntry) bool {
		g.pending.Delete(p)
		return true
	})
	delete(g.consumers, c.name)
	s.bytes -= int64(c.pending.Len())*pendingEntryOverhead + streamGroupOverhead + int64(len(c.name))
	x.groupsChanged(e)
	return x.replyLen(c.pending.Len())
}

func xAck(x *call) error {
	e, s, err := x.lookupStream(x.args[1])
	if err != nil {
		return err
	}
	var g *streamGroup
	if s != nil {
		g = s.group(x.args[2])
	}
	if g == nil {
		return x.replyInt(0)
	}
	ids, err := parseIDs(x.args[3:])
	if err != nil {
		return err
	}
	acknowledged := 0
	for _, id := range ids {
		if s.acknowledge(g, id) {
			acknowledged++
		}
	}
	if acknowledged > 0 {
		x.groupsChanged(e)
	}
	return x.replyLen(acknowledged)
}

// effectSeen writes the times a consumer was last seen and active. Replaying it creates a missing
// consumer.
func (x *call) effectSeen(key string, g *streamGroup, c *streamConsumer) {
	x.effect("xclaim", key, g.name, c.name, "0", "0-0", "seen", formatInt(c.seen), "active", formatInt(c.active))
}

// effectGroup writes how far a group has read.
func (x *call) effectGroup(key string, g *streamGroup) {
	x.effect("xgroup", "setid", key, g.name, g.last.String(), "entriesread", formatInt(g.read))
}

// effectClaimed writes that entries are pending for a consumer, with one effect for each run of entries
// that share their time and count.
func (x *call) effectClaimed(key string, g *streamGroup, c *streamConsumer, all []*pendingEntry) {
	for len(all) > 0 {
		first := all[0]
		args := []string{"xclaim", key, g.name, c.name, "0"}
		for len(all) > 0 && all[0].count == first.count && all[0].delivered == first.delivered {
			args = append(args, all[0].id.String())
			all = all[1:]
		}
		x.effect(append(args, "time", formatInt(first.delivered), "retrycount", formatInt(int64(first.count)),
			"force", "justid", "seen", formatInt(c.seen), "active", formatInt(c.active))...)
	}
}

package redis

import (
	"math"
	"slices"
	"time"
)

// streamEntry appends a stream's entry.
func (r *reply) streamEntry(e *streamEntry) {
	r.array(2)
	r.streamID(e.id)
	r.array(2 * len(e.fields))
	for i, f := range e.fields {
		r.bulk(f)
		r.bulk(e.values[i])
	}
}

// streamEntries appends a list of entries.
func (r *reply) streamEntries(all []*streamEntry) {
	r.array(len(all))
	for _, e := range all {
		r.streamEntry(e)
	}
}

// entries returns the entries from start to end, at most count unless that is 0.
func (s *stream) entries(start, end streamID, count int64) []*streamEntry {
	var all []*streamEntry
	s.ascend(start, func(e *streamEntry) bool {
		if end.less(e.id) {
			return false
		}
		all = append(all, e)
		return int64(len(all)) != count
	})
	return all
}

// entriesDown returns the entries from end down to start, at most count unless that is 0.
func (s *stream) entriesDown(start, end streamID, count int64) []*streamEntry {
	var all []*streamEntry
	s.descend(end, func(e *streamEntry) bool {
		if e.id.less(start) {
			return false
		}
		all = append(all, e)
		return int64(len(all)) != count
	})
	return all
}

func xRange(x *call) error { return x.streamRange(x.args[2], x.args[3], (*stream).entries) }

func xRevRange(x *call) error { return x.streamRange(x.args[3], x.args[2], (*stream).entriesDown) }

// streamRange appends a range, which entries or entriesDown reads.
func (x *call) streamRange(from, to string, entries func(s *stream, start, end streamID, count int64) []*streamEntry) error {
	start, err := parseStart(from)
	if err != nil {
		return err
	}
	end, err := parseEnd(to)
	if err != nil {
		return err
	}
	count := int64(-1)
	for i := 4; i < len(x.args); i += 2 {
		if !x.is(i, "count") || i+1 == len(x.args) {
			return errSyntax
		}
		if count, err = x.int(i + 1); err != nil {
			return err
		}
		count = max(count, 0)
	}
	s, err := find[*stream](x, x.args[1])
	switch {
	case err != nil:
		return err
	case s == nil:
		x.out.array(0)
	case count == 0:
		x.out.nullArray()
	default:
		x.out.streamEntries(entries(s, start, end, max(count, 0)))
	}
	return nil
}

// streamRead is a request for XREAD or XREADGROUP.
type streamRead struct {
	// grouped reports whether it is XREADGROUP, and named whether that names its group.
	grouped, named  bool
	group, consumer string
	noAck           bool
	count           int64
	// blocks reports whether the request waits for entries. timeout limits the wait; 0 means forever.
	blocks  bool
	timeout time.Duration
	// streamsAt is the first key's position.
	streamsAt int
	keys      []string
	// ids are the IDs to read after; the greatest stands for ">".
	ids []streamID
}

func xRead(x *call) error { return x.readStreams(&streamRead{}) }

func xReadGroup(x *call) error { return x.readStreams(&streamRead{grouped: true}) }

// readStreams runs XREAD or XREADGROUP, for the first time or again after it was blocked.
func (x *call) readStreams(r *streamRead) error {
	if err := r.parse(x); err != nil {
		return err
	}
	if x.client.blocked != nil {
		return x.readAgain(r)
	}
	if err := r.parseIDs(x); err != nil {
		return err
	}
	switch {
	case x.readNow(r):
		return nil
	case r.blocks:
		return x.block(r.blockedArgs(x), r.keys, r.timeout, (*reply).nullArray)
	}
	return x.replyNullArray()
}

// parse reads the options.
func (r *streamRead) parse(x *call) error {
	for i := 1; i < len(x.args) && r.streamsAt == 0; i++ {
		more := len(x.args) - i - 1
		var err error
		switch {
		case x.is(i, "block") && more > 0:
			i++
			err = r.parseBlock(x, i)
		case x.is(i, "count") && more > 0:
			i++
			r.count, err = x.int(i)
			r.count = max(r.count, 0)
		case x.is(i, "streams") && more > 0:
			r.streamsAt = i + 1
			if more%2 != 0 {
				err = errorf("ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.")
			}
		case x.is(i, "group") && more > 1:
			if !r.grouped {
				err = errorf("ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.")
			}
			r.named = true
			r.group = x.args[i+1]
			r.consumer = x.args[i+2]
			i += 2
		case x.is(i, "noack"):
			if !r.grouped {
				err = errorf("ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.")
			}
			r.noAck = true
		default:
			err = errSyntax
		}
		if err != nil {
			return err
		}
	}
	if r.streamsAt == 0 {
		return errSyntax
	}
	if r.grouped && !r.named {
		return errorf("ERR Missing GROUP option for XREADGROUP")
	}
	rest := x.args[r.streamsAt:]
	r.keys = rest[:len(rest)/2]
	return nil
}

// maxBlock is the longest timeout, in milliseconds. Longer ones are cut to it.
const maxBlock = math.MaxInt64 / int64(time.Millisecond) / 2

// parseBlock reads a timeout in milliseconds.
func (r *streamRead) parseBlock(x *call, i int) error {
	if x.script {
		return errorf("ERR %s command is not allowed with BLOCK option from scripts", x.args[0])
	}
	ms, ok := parseInt(x.args[i])
	switch {
	case !ok:
		return errorf("ERR timeout is not an integer or out of range")
	case ms < 0:
		return errorf("ERR timeout is negative")
	case ms > math.MaxInt64-x.now:
		return errorf("ERR timeout is out of range")
	}
	r.blocks = true
	r.timeout = time.Duration(min(ms, maxBlock)) * time.Millisecond
	return nil
}

// parseIDs reads the IDs, and checks that the keys have streams and groups.
func (r *streamRead) parseIDs(x *call) error {
	for i, key := range r.keys {
		_, s, err := x.lookupStream(key)
		if err != nil {
			return err
		}
		if r.grouped && (s == nil || s.group(r.group) == nil) {
			return errReadGroup(key, r.group)
		}
		id, err := r.parseID(x.args[r.streamsAt+len(r.keys)+i], s)
		if err != nil {
			return err
		}
		r.ids = append(r.ids, id)
	}
	return nil
}

func errReadGroup(key, group string) error {
	return errorf("NOGROUP No such key '%s' or consumer group '%s' in XREADGROUP with GROUP option", key, group)
}

// parseID reads a stream's ID. s may be nil.
func (r *streamRead) parseID(text string, s *stream) (streamID, error) {
	switch {
	case text == "$" && r.grouped:
		return streamID{}, errorf("ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.")
	case text == "$":
		return s.groupID(text, nil)
	case text == ">" && !r.grouped:
		return streamID{}, errorf("ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.")
	case text == ">":
		return maxStreamID, nil
	}
	return parseStreamID(text, 0)
}

// blockedArgs returns the request with the IDs that "$" stands for.
func (r *streamRead) blockedArgs(x *call) []string {
	args := slices.Clone(x.args)
	for i, id := range r.ids {
		if !r.grouped {
			args[r.streamsAt+len(r.keys)+i] = id.String()
		}
	}
	return args
}

// readNow appends the entries that the streams have now, and reports whether there were any.
func (x *call) readNow(r *streamRead) bool {
	body := &reply{resp3: x.out.resp3}
	served := 0
	for i, key := range r.keys {
		e, s, _ := x.lookupStream(key)
		if s == nil {
			continue
		}
		after := r.ids[i]
		var g *streamGroup
		if r.grouped {
			g = s.group(r.group)
		}
		history := g != nil && after != maxStreamID
		if g != nil && !history {
			after = g.last
		}
		if !history && (s.length == 0 || !after.less(s.final().id)) {
			continue
		}
		body.streamHeader(key)
		x.readStream(body, r, streamPart{e, g, after, history})
		served++
	}
	if served > 0 {
		x.out.streams(served)
		x.out.b = append(x.out.b, body.b...)
	}
	return served > 0
}

// streams starts the entries from n streams: a map, or a list of pairs in RESP2.
func (r *reply) streams(n int) {
	if r.resp3 {
		r.mapOf(n)
	} else {
		r.array(n)
	}
}

// streamHeader starts a stream's entries.
func (r *reply) streamHeader(key string) {
	if !r.resp3 {
		r.array(2)
	}
	r.bulk(key)
}

// readAgain serves a blocked request when one of its keys has changed. The request stays blocked if the
// key has nothing new.
func (x *call) readAgain(r *streamRead) error {
	key := x.client.blocked.woken
	e, s, err := x.lookupStream(key)
	switch {
	case r.grouped && err != nil:
		return err
	case r.grouped && (s == nil || s.group(r.group) == nil):
		return errReadGroup(key, r.group)
	case s == nil:
		return errBlocked
	}
	i := slices.Index(r.keys, key)
	var after streamID
	var g *streamGroup
	if r.grouped {
		g = s.group(r.group)
		after = g.last
	} else {
		after, _ = parseStreamID(x.args[r.streamsAt+len(r.keys)+i], 0)
	}
	if !after.less(s.last) {
		return errBlocked
	}
	x.out.streams(1)
	x.out.streamHeader(e.key)
	x.readStream(x.out, r, streamPart{entry: e, group: g, after: after})
	return nil
}

// streamPart selects entries to read: those after an ID, or with history those that a group's consumer
// has not acknowledged.
type streamPart struct {
	entry   *entry
	group   *streamGroup // nil for XREAD
	after   streamID
	history bool
}

// readStream appends entries after an ID, from the stream or from the consumer's pending ones.
func (x *call) readStream(out *reply, r *streamRead, p streamPart) {
	s := p.entry.value.(*stream)
	if p.group == nil {
		out.streamEntries(s.entries(p.after.next(), maxStreamID, r.count))
		return
	}
	x.noteConsumer(p.entry.key, p.group, r.consumer)
	c := s.consumer(p.group, r.consumer, x.now)
	if p.history {
		x.readPending(out, r, p, c)
	} else {
		x.readNew(out, r, p, c)
	}
	x.groupsChanged(p.entry)
}

// readNew appends entries that a group has not read, and delivers them to a consumer.
func (x *call) readNew(out *reply, r *streamRead, part streamPart, c *streamConsumer) {
	e, g, after := part.entry, part.group, part.after
	s := e.value.(*stream)
	entries := s.entries(after.next(), maxStreamID, r.count)
	out.streamEntries(entries)
	var claimed []*pendingEntry
	for _, entry := range entries {
		s.advance(g, entry.id)
		if r.noAck {
			continue
		}
		p := s.deliver(g, c, entry.id)
		p.delivered = x.now
		p.count = 1
		c.active = x.now
		claimed = append(claimed, p)
	}
	if len(claimed) > 0 {
		x.effectClaimed(e.key, g, c, claimed)
	} else {
		x.effectSeen(e.key, g, c)
	}
	if len(entries) > 0 {
		x.effectGroup(e.key, g)
	}
}

// readPending appends a consumer's pending entries, which delivers them again. Entries deleted from the
// stream have only an ID.
func (x *call) readPending(out *reply, r *streamRead, part streamPart, c *streamConsumer) {
	e, g, after := part.entry, part.group, part.after
	s := e.value.(*stream)
	var all, claimed []*pendingEntry
	c.pending.Ascend(&pendingEntry{id: after.next()}, func(p *pendingEntry) bool {
		all = append(all, p)
		return int64(len(all)) != r.count
	})
	out.array(len(all))
	for _, p := range all {
		entry := s.find(p.id)
		if entry == nil {
			out.array(2)
			out.streamID(p.id)
			out.nullArray()
			continue
		}
		out.streamEntry(entry)
		p.delivered = x.now
		p.count++
		claimed = append(claimed, p)
	}
	if len(claimed) > 0 {
		x.effectClaimed(e.key, g, c, claimed)
	} else {
		x.effectSeen(e.key, g, c)
	}
}

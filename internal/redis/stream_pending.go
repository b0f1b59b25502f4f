package redis

import "math"

// streamOfGroup returns the stream and the group that a command's first arguments name.
func (x *call) streamOfGroup() (*entry, *stream, *streamGroup, error) {
	e, s, err := x.lookupStream(x.args[1])
	if err != nil {
		return nil, nil, nil, err
	}
	if s == nil || s.groups[x.args[2]] == nil {
		return nil, nil, nil, errorf("NOGROUP No such key '%s' or consumer group '%s'", x.args[1], x.args[2])
	}
	return e, s, s.groups[x.args[2]], nil
}

// pendingRange has the arguments with which XPENDING selects entries.
type pendingRange struct {
	minIdle    int64
	start, end streamID
	count      int64
	consumer   string
	// named reports whether only the consumer's entries are selected.
	named bool
}

func xPending(x *call) error {
	if len(x.args) != 3 && (len(x.args) < 6 || len(x.args) > 9) {
		return errSyntax
	}
	r := &pendingRange{}
	if len(x.args) > 3 {
		if err := r.parse(x); err != nil {
			return err
		}
	}
	_, _, g, err := x.streamOfGroup()
	if err != nil {
		return err
	}
	if len(x.args) == 3 {
		x.out.pendingSummary(g)
		return nil
	}
	x.pendingEntries(g, r)
	return nil
}

// parse reads the arguments.
func (r *pendingRange) parse(x *call) error {
	i := 3
	var err error
	if x.is(3, "idle") {
		if r.minIdle, err = x.int(4); err != nil {
			return err
		}
		if len(x.args) < 8 {
			return errSyntax
		}
		i = 5
	}
	if r.count, err = x.int(i + 2); err != nil {
		return err
	}
	if r.start, err = parseStart(x.args[i]); err != nil {
		return err
	}
	if r.end, err = parseEnd(x.args[i+1]); err != nil {
		return err
	}
	if i+3 < len(x.args) {
		r.named = true
		r.consumer = x.args[i+3]
	}
	return nil
}

// pendingSummary appends the number of pending entries in a group, the first and last ID, and each
// consumer's count.
func (r *reply) pendingSummary(g *streamGroup) {
	r.array(4)
	r.len(g.pending.Len())
	first, found := g.pending.Min()
	if !found {
		r.null()
		r.null()
		r.nullArray()
		return
	}
	last, _ := g.pending.Max()
	r.streamID(first.id)
	r.streamID(last.id)
	var consumers []*streamConsumer
	for c := range ordered(g.consumers) {
		if c.pending.Len() > 0 {
			consumers = append(consumers, c)
		}
	}
	r.array(len(consumers))
	for _, c := range consumers {
		r.array(2)
		r.bulk(c.name)
		r.bulk(formatInt(int64(c.pending.Len())))
	}
}

// pendingEntries appends the pending entries in a range.
func (x *call) pendingEntries(g *streamGroup, r *pendingRange) {
	pending := g.pending
	if r.named {
		c, found := g.consumers[r.consumer]
		if !found {
			x.out.array(0)
			return
		}
		pending = c.pending
	}
	var all []*pendingEntry
	pending.Ascend(&pendingEntry{id: r.start}, func(p *pendingEntry) bool {
		if int64(len(all)) >= r.count || r.end.less(p.id) {
			return false
		}
		if r.minIdle == 0 || x.now-p.delivered >= r.minIdle {
			all = append(all, p)
		}
		return true
	})
	x.out.array(len(all))
	for _, p := range all {
		x.out.array(4)
		x.out.values(p.id, p.consumer.name, max(x.now-p.delivered, 0), int64(p.count))
	}
}

// claiming has XCLAIM's arguments.
type claiming struct {
	minIdle int64
	ids     []streamID
	// delivered is the delivery time that the entries get, in milliseconds. count is the number of
	// deliveries that they get, or -1.
	delivered, count int64
	force, justID    bool
	lastID           streamID
	// seen and active are the times the consumer was last seen and active. Only effects give them.
	seen, active int64
}

func xClaim(x *call) error {
	e, s, g, err := x.streamOfGroup()
	if err != nil {
		return err
	}
	q := &claiming{delivered: -1, count: -1, seen: x.now, active: x.now}
	if err := q.parse(x); err != nil {
		return err
	}
	moved := g.last.less(q.lastID)
	if moved {
		g.last = q.lastID
	}
	if x.replaying {
		s.consumer(g, x.args[3], q.seen).active = q.active
	}
	claimed, gone := x.claimAll(s, g, q)
	if !x.replaying {
		x.effectsOfClaim(e, g, claimResult{claimed, gone, moved})
	}
	x.appendClaimed(x.out, s, claimed, q.justID)
	if len(claimed) > 0 || len(gone) > 0 || moved || x.replaying {
		x.groupsChanged(e)
	}
	return nil
}

// parse reads the arguments: IDs, and then options from the first argument that is no ID.
func (q *claiming) parse(x *call) error {
	minIdle, ok := parseInt(x.args[4])
	if !ok {
		return errorf("ERR Invalid min-idle-time argument for XCLAIM")
	}
	q.minIdle = max(minIdle, 0)
	i := 5
	for ; i < len(x.args); i++ {
		id, err := parseStreamID(x.args[i], 0)
		if err != nil {
			break
		}
		q.ids = append(q.ids, id)
	}
	for ; i < len(x.args); i++ {
		var err error
		switch {
		case x.is(i, "force"):
			q.force = true
		case x.is(i, "justid"):
			q.justID = true
		case i+1 < len(x.args) && q.takesValue(x, i):
			i++
			err = q.parseOption(x, i)
		default:
			err = errorf("ERR Unrecognized XCLAIM option '%s'", x.args[i])
		}
		if err != nil {
			return err
		}
	}
	if !x.replaying && (q.delivered < 0 || q.delivered > x.now) {
		q.delivered = x.now
	}
	return nil
}

// takesValue reports whether an argument is an option with a value.
func (q *claiming) takesValue(x *call, i int) bool {
	return x.is(i, "idle") || x.is(i, "time") || x.is(i, "retrycount") || x.is(i, "lastid") ||
		x.replaying && (x.is(i, "seen") || x.is(i, "active"))
}

// parseOption reads the value for the option before it.
func (q *claiming) parseOption(x *call, i int) error {
	var err error
	if x.is(i-1, "lastid") {
		q.lastID, err = parseStreamID(x.args[i], 0)
		return err
	}
	n, ok := parseInt(x.args[i])
	switch {
	case x.is(i-1, "idle"):
		if !ok {
			return errorf("ERR Invalid IDLE option argument for XCLAIM")
		}
		q.delivered = x.now - n
	case x.is(i-1, "time"):
		if !ok {
			return errorf("ERR Invalid TIME option argument for XCLAIM")
		}
		q.delivered = n
	case x.is(i-1, "retrycount"):
		if !ok {
			return errorf("ERR Invalid RETRYCOUNT option argument for XCLAIM")
		}
		q.count = n
	case x.is(i-1, "seen"):
		q.seen = n
		q.active = n // logs of earlier versions have no other time
	default:
		q.active = n
	}
	return nil
}

// claimAll claims entries and returns them. Pending entries that have left the stream stop being
// pending; gone has their IDs.
func (x *call) claimAll(s *stream, g *streamGroup, q *claiming) (claimed []*pendingEntry, gone []streamID) {
	for _, id := range q.ids {
		if s.find(id) == nil {
			if s.acknowledge(g, id) {
				gone = append(gone, id)
			}
			continue
		}
		p := g.findPending(id)
		if p == nil && !q.force || p != nil && q.minIdle > 0 && x.now-p.delivered < q.minIdle {
			continue
		}
		fresh := p == nil
		x.noteConsumer(x.args[1], g, x.args[3])
		c := s.consumer(g, x.args[3], q.seen)
		c.active = q.active
		p = s.deliver(g, c, id)
		if fresh {
			p.count = 1
		}
		p.delivered = q.delivered
		switch {
		case q.count >= 0:
			p.count = uint64(q.count)
		case !q.justID:
			p.count++
		}
		claimed = append(claimed, p)
	}
	return claimed, gone
}

// claimResult is a claim's outcome: entries with a new owner, entries that are gone, and whether the
// group has moved on.
type claimResult struct {
	claimed []*pendingEntry
	gone    []streamID
	moved   bool
}

// effectsOfClaim writes the effects for XCLAIM and XAUTOCLAIM: the claimed entries, those no longer
// pending, and the group's new last ID if it moved.
func (x *call) effectsOfClaim(e *entry, g *streamGroup, r claimResult) {
	if len(r.gone) > 0 {
		args := []string{"xack", e.key, g.name}
		for _, id := range r.gone {
			args = append(args, id.String())
		}
		x.effect(args...)
	}
	if len(r.claimed) > 0 {
		x.effectClaimed(e.key, g, r.claimed[0].consumer, r.claimed)
	}
	if r.moved {
		x.effectGroup(e.key, g)
	}
}

// appendClaimed appends claimed entries, or only their IDs.
func (x *call) appendClaimed(out *reply, s *stream, claimed []*pendingEntry, justID bool) {
	out.array(len(claimed))
	for _, p := range claimed {
		if justID {
			out.streamID(p.id)
		} else {
			out.streamEntry(s.find(p.id))
		}
	}
}

// XAUTOCLAIM claims autoClaimCount entries unless it gives a count, and looks at no more than
// autoClaimFactor times that number.
const (
	autoClaimCount    = 100
	autoClaimFactor   = 10
	maxAutoClaimCount = math.MaxInt64 / 16
)

// autoClaiming has XAUTOCLAIM's arguments.
type autoClaiming struct {
	minIdle int64
	start   streamID
	count   int64
	justID  bool
}

func (q *autoClaiming) parse(x *call) error {
	minIdle, ok := parseInt(x.args[4])
	if !ok {
		return errorf("ERR Invalid min-idle-time argument for XAUTOCLAIM")
	}
	q.minIdle = max(minIdle, 0)
	var err error
	if q.start, err = parseStart(x.args[5]); err != nil {
		return err
	}
	q.count = autoClaimCount
	for i := 6; i < len(x.args); i++ {
		switch {
		case x.is(i, "count") && i+1 < len(x.args):
			i++
			q.count, ok = parseInt(x.args[i])
			if !ok || q.count < 1 || q.count > maxAutoClaimCount {
				return errorf("ERR COUNT must be > 0")
			}
		case x.is(i, "justid"):
			q.justID = true
		default:
			return errSyntax
		}
	}
	return nil
}

func xAutoClaim(x *call) error {
	q := &autoClaiming{}
	if err := q.parse(x); err != nil {
		return err
	}
	e, s, g, err := x.streamOfGroup()
	if err != nil {
		return err
	}
	found, gone, next := x.idle(s, g, q)
	for _, id := range gone {
		s.acknowledge(g, id)
	}
	for _, p := range found {
		x.noteConsumer(x.args[1], g, x.args[3])
		c := s.consumer(g, x.args[3], x.now)
		c.active = x.now
		s.deliver(g, c, p.id)
		p.delivered = x.now
		if !q.justID {
			p.count++
		}
	}
	x.effectsOfClaim(e, g, claimResult{claimed: found, gone: gone})
	x.out.array(3)
	x.out.streamID(next)
	x.appendClaimed(x.out, s, found, q.justID)
	x.out.array(len(gone))
	for _, id := range gone {
		x.out.streamID(id)
	}
	if len(found) > 0 || len(gone) > 0 {
		x.groupsChanged(e)
	}
	return nil
}

// idle returns the pending entries that XAUTOCLAIM claims, the IDs of those that have left the stream,
// and the ID to continue from, or 0-0.
func (x *call) idle(s *stream, g *streamGroup, q *autoClaiming) (found []*pendingEntry, gone []streamID, next streamID) {
	attempts := int64(math.MaxInt64)
	if q.count < math.MaxInt64/autoClaimFactor {
		attempts = q.count * autoClaimFactor
	}
	g.pending.Ascend(&pendingEntry{id: q.start}, func(p *pendingEntry) bool {
		if attempts == 0 || int64(len(found)+len(gone)) == q.count {
			next = p.id
			return false
		}
		attempts--
		switch {
		case s.find(p.id) == nil:
			gone = append(gone, p.id)
		case q.minIdle == 0 || x.now-p.delivered >= q.minIdle:
			found = append(found, p)
		}
		return true
	})
	return found, gone, next
}

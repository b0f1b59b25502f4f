package redis

import (
	"strings"
)

// trimming selects the entries to remove from a stream: all but a number, or those before an ID.
type trimming struct {
	by     trimBy
	maxLen int64
	minID  streamID
	// approximate removes only whole nodes. limit caps the number of entries to remove; 0 means no
	// limit.
	approximate bool
	limit       int64
}

type trimBy uint8

const (
	trimNothing trimBy = iota
	trimByLength
	trimByID
)

// streamAddOptions are the options for XADD and XTRIM.
type streamAddOptions struct {
	trimming
	limitGiven bool
	noMkStream bool
	// idAt is the position of XADD's ID.
	idAt int
	// id is the ID that was given. automatic reports that none was, and nextSeq that only its first
	// part was.
	id                 streamID
	automatic, nextSeq bool
}

// parseAddOptions reads XADD's options up to its ID, or XTRIM's.
func (x *call) parseAddOptions(adds bool) (*streamAddOptions, error) {
	o := &streamAddOptions{}
	for i := 2; i < len(x.args) && o.idAt == 0; i++ {
		more := i+1 < len(x.args)
		var err error
		switch {
		case adds && x.args[i] == "*":
			o.automatic = true
			o.idAt = i
		case more && x.is(i, "maxlen"), more && x.is(i, "minid"):
			i, err = o.parseTrim(x, i)
		case more && x.is(i, "limit"):
			i++
			err = o.parseLimit(x, i)
		case adds && x.is(i, "nomkstream"):
			o.noMkStream = true
		case adds:
			o.idAt = i
			err = o.parseID(x.args[i])
		default:
			err = errSyntax
		}
		if err != nil {
			return nil, err
		}
	}
	return o, o.checkLimit(x, adds)
}

// parseTrim reads MAXLEN or MINID and its arguments, and returns the last one's position.
func (o *streamAddOptions) parseTrim(x *call, i int) (int, error) {
	if o.by != trimNothing {
		return i, errorf("ERR syntax error, MAXLEN and MINID options at the same time are not compatible")
	}
	byLength := x.is(i, "maxlen")
	i++
	o.approximate = false
	if i+1 < len(x.args) && (x.args[i] == "~" || x.args[i] == "=") {
		o.approximate = x.args[i] == "~"
		i++
	}
	var err error
	if !byLength {
		o.by = trimByID
		o.minID, err = parseStreamID(x.args[i], 0)
		return i, err
	}
	o.by = trimByLength
	o.maxLen, err = x.int(i)
	if err == nil && o.maxLen < 0 {
		err = errorf("ERR The MAXLEN argument must be >= 0.")
	}
	return i, err
}

func (o *streamAddOptions) parseLimit(x *call, i int) error {
	var err error
	o.limit, err = x.int(i)
	if err != nil {
		return err
	}
	if o.limit < 0 {
		return errorf("ERR The LIMIT argument must be >= 0.")
	}
	o.limitGiven = true
	return nil
}

// parseID reads XADD's ID, whose second part may be "*".
func (o *streamAddOptions) parseID(text string) error {
	if first, found := strings.CutSuffix(text, "-*"); found && !strings.Contains(first, "-") {
		o.nextSeq = true
		text = first
	}
	var err error
	o.id, err = parseStreamID(text, 0)
	return err
}

// checkLimit checks the options that LIMIT needs, and sets its default.
func (o *streamAddOptions) checkLimit(x *call, adds bool) error {
	switch {
	case o.limit > 0 && o.by == trimNothing:
		return errorf("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy")
	case !adds && o.by == trimNothing:
		return errorf("ERR syntax error, XTRIM must be called with MAXLEN or MINID")
	case o.limitGiven && !o.approximate:
		return errorf("ERR syntax error, LIMIT cannot be used without the special ~ option")
	}
	if o.approximate && !o.limitGiven {
		o.limit = defaultTrimLimit(x.limits.streamNodeMaxEntries)
	}
	return nil
}

// defaultTrimLimit returns how many entries approximate trimming may remove if a node holds up to node
// entries.
func defaultTrimLimit(node int) int64 {
	limit := 100 * int64(node)
	if limit <= 0 {
		return 10000
	}
	return min(limit, 1000000)
}

// trim removes entries, and returns how many.
func (s *stream) trim(t *trimming) int {
	before := s.length
	for len(s.nodes) > 0 {
		n := s.nodes[0]
		if t.by == trimByLength && int64(s.length) <= t.maxLen {
			break
		}
		if t.limit > 0 && int64(before-s.length+len(n.entries)) > t.limit {
			break
		}
		if !s.trims(t, n) {
			s.trimNode(t, n)
			break
		}
		s.removeNode(0)
	}
	return before - s.length
}

// trims reports whether a whole node should go.
func (s *stream) trims(t *trimming, n *streamNode) bool {
	if t.by == trimByLength {
		return int64(s.length-len(n.entries)) >= t.maxLen
	}
	return n.last.less(t.minID)
}

// trimNode removes entries from the first node, unless trimming is approximate.
func (s *stream) trimNode(t *trimming, n *streamNode) {
	if t.approximate {
		return
	}
	count := s.length - int(min(t.maxLen, int64(s.length)))
	if t.by == trimByID {
		count, _ = n.search(t.minID)
	}
	s.removeEntries(n, 0, count)
	if len(n.entries) == 0 && len(s.nodes) > 1 {
		s.removeNode(0)
	}
}

// trim trims a stream, writes the effect, and returns how many entries it removed.
func (x *call) trim(e *entry, s *stream, t *trimming) int {
	nodes := len(s.nodes)
	removed := s.trim(t)
	if removed == 0 && len(s.nodes) == nodes {
		return 0
	}
	x.keys.charge(e)
	if t.by == trimByLength {
		x.effect("xtrim", e.key, "maxlen", "=", formatInt(int64(s.length)))
		return removed
	}
	id := t.minID
	if s.length > 0 {
		id = s.firstID()
	}
	x.effect("xtrim", e.key, "minid", "=", id.String())
	return removed
}

func xAdd(x *call) error {
	o, err := x.parseAddOptions(true)
	if err != nil {
		return err
	}
	pairs := x.args[min(o.idAt+1, len(x.args)):]
	if o.idAt == 0 || len(pairs) < 2 || len(pairs)%2 == 1 {
		return errorf("ERR wrong number of arguments for 'xadd' command")
	}
	if !o.automatic && !o.nextSeq && o.id == (streamID{}) {
		return errorf("ERR The ID specified in XADD must be greater than 0-0")
	}
	e, s, err := x.lookupStream(x.args[1])
	if err != nil {
		return err
	}
	if s == nil && o.noMkStream {
		return x.replyNull()
	}
	if s == nil {
		s = &stream{}
	}
	id, err := x.newStreamID(s, o, pairs)
	if err != nil {
		return err
	}
	s.add(id, pairs, &x.limits.encodings)
	text := id.String()
	x.effect(append([]string{"xadd", x.args[1], text}, pairs...)...)
	if e == nil {
		e = x.set(x.args[1], s)
	}
	if o.by != trimNothing {
		x.trimmed = x.trim(e, s, &o.trimming) > 0
	}
	x.changed(e)
	return x.replyBulk(text)
}

// newStreamID returns the ID for XADD's entry.
func (x *call) newStreamID(s *stream, o *streamAddOptions, pairs []string) (streamID, error) {
	if s.last == maxStreamID {
		return s.last, errorf("ERR The stream has exhausted the last possible ID, unable to add more items")
	}
	id := o.id
	switch {
	case o.automatic && uint64(x.now) > s.last.ms:
		id = streamID{ms: uint64(x.now)}
	case o.automatic:
		id = s.last.next()
	case o.nextSeq && id.ms == s.last.ms:
		id = s.last.next()
		if id.ms != s.last.ms {
			return id, errorf("ERR Elements are too large to be stored")
		}
	}
	if !s.last.less(id) {
		return id, errorf("ERR The ID specified in XADD is equal or smaller than the target stream top item")
	}
	if totalLength(pairs) > maxListpack {
		return id, errorf("ERR Elements are too large to be stored")
	}
	return id, nil
}

// totalLength returns the strings' length in bytes.
func totalLength(all []string) int {
	n := 0
	for _, s := range all {
		n += len(s)
	}
	return n
}

func xTrim(x *call) error {
	o, err := x.parseAddOptions(false)
	if err != nil {
		return err
	}
	e, s, err := x.lookupStream(x.args[1])
	if err != nil {
		return err
	}
	if s == nil {
		return x.replyInt(0)
	}
	removed := x.trim(e, s, &o.trimming)
	if removed > 0 {
		x.updated(e)
	}
	return x.replyLen(removed)
}

func xLen(x *call) error {
	s, err := find[*stream](x, x.args[1])
	if err != nil {
		return err
	}
	if s == nil {
		return x.replyInt(0)
	}
	return x.replyLen(s.length)
}

func xDel(x *call) error {
	e, s, err := x.lookupStream(x.args[1])
	if err != nil {
		return err
	}
	if s == nil {
		return x.replyInt(0)
	}
	ids, err := parseIDs(x.args[2:])
	if err != nil {
		return err
	}
	removed := 0
	for _, id := range ids {
		if s.remove(id) {
			removed++
		}
	}
	if removed > 0 {
		x.updated(e)
	}
	return x.replyLen(removed)
}

func xSetID(x *call) error {
	id, err := parseStreamID(x.args[2], 0)
	if err != nil {
		return err
	}
	added, deleted, err := x.setIDOptions(id)
	if err != nil {
		return err
	}
	e, s, err := x.lookupStream(x.args[1])
	if err != nil {
		return err
	}
	if s == nil {
		return errNoSuchKey
	}
	if err := s.checkSetID(id, added); err != nil {
		return err
	}
	s.last = id
	if added >= 0 {
		s.added = added
	}
	if deleted != (streamID{}) {
		s.deleted = deleted
	}
	x.groupsChanged(e)
	return x.replyOK()
}

// setIDOptions reads XSETID's options: the number of entries ever added, or -1, and the greatest
// deleted ID, or 0-0.
func (x *call) setIDOptions(id streamID) (added int64, deleted streamID, err error) {
	added = -1
	for i := 3; i < len(x.args); i += 2 {
		more := i+1 < len(x.args)
		switch {
		case more && x.is(i, "entriesadded"):
			added, err = x.int(i + 1)
			if err == nil && added < 0 {
				err = errorf("ERR entries_added must be positive")
			}
		case more && x.is(i, "maxdeletedid"):
			deleted, err = parseStreamID(x.args[i+1], 0)
			if err == nil && id.less(deleted) {
				err = errorf("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id")
			}
		default:
			err = errSyntax
		}
		if err != nil {
			return 0, deleted, err
		}
	}
	return added, deleted, nil
}

// checkSetID returns an error if the ID or the number of added entries cannot be right for the stream.
func (s *stream) checkSetID(id streamID, added int64) error {
	if s.length > 0 && id.less(s.final().id) {
		return errorf("ERR The ID specified in XSETID is smaller than the target stream top item")
	}
	if added >= 0 && int64(s.length) > added {
		return errorf("ERR The entries_added specified in XSETID is smaller than the target stream length")
	}
	return nil
}

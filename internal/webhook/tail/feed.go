package tail

import (
	"context"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"steward/internal/budget"
	"steward/internal/db"
	"steward/internal/webhook/eventlog"
)

const (
	// pollEvery is how often a feed looks for events that nobody told it about.
	pollEvery = time.Second
	// pace is the shortest time between a feed's reads, so that it reads events together that are
	// committed one by one.
	pace = 50 * time.Millisecond
	// feedBytes and feedTime bound the frames that a feed keeps. Connections that are further behind
	// read by themselves.
	feedBytes = 4 << 20
	feedTime  = 10 * time.Second
	// loadRows bounds the events that we load at a time. A list shows at most 64 KiB of a payload.
	loadRows = 64
	// errorPause is the pause after a failed read.
	errorPause = 3 * time.Second
)

// feed reads an organization's log for the connections of one audience that are at its end. It keeps
// the latest frames of the webhooks they ask for.
type feed struct {
	audience
	server *Server
	stop   context.CancelFunc
	wake   chan struct{}
	// missing has the gaps to send with the next frames. Only run uses it.
	missing gaps
	// memory is charged for the frames.
	memory *budget.Charge

	mu    sync.Mutex
	hooks map[string]*hookFeed // by ULID; "" for all webhooks
	// frames come after start and reach up to end, in order.
	frames     []frame
	bytes      int
	start, end eventlog.Position
	started    bool          // start and end are set
	changed    chan struct{} // closed and replaced after each read
}

// hookFeed is a webhook that the feed's connections ask for.
type hookFeed struct {
	connections int
	// from, if it is set, is where the webhook's frames begin: it joined while the feed was reading.
	from    eventlog.Position
	hasFrom bool
}

func newFeed(s *Server, to audience, stop context.CancelFunc) *feed {
	return &feed{
		audience: to, server: s, stop: stop, wake: make(chan struct{}, 1), missing: gaps{}, hooks: map[string]*hookFeed{},
		memory: s.Feeds.Charge(to.orgID, ""), changed: make(chan struct{}),
	}
}

func (f *feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// join adds a connection.
func (f *feed) join(hook string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hooks[hook] == nil {
		f.hooks[hook] = &hookFeed{}
	}
	f.hooks[hook].connections++
	f.signal()
}

// part removes a connection, and reports whether it was the last one.
func (f *feed) part(hook string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks[hook].connections--
	if f.hooks[hook].connections == 0 {
		delete(f.hooks, hook)
	}
	return len(f.hooks) == 0
}

// run reads the log until ctx ends.
func (f *feed) run(ctx context.Context) {
	defer f.memory.Release()
	for ctx.Err() == nil {
		more, err := f.read(ctx)
		if err != nil && ctx.Err() == nil {
			f.server.Log.Error("the tail is delayed", "organization", f.orgID, "error", err)
			sleep(ctx, errorPause)
		}
		if more {
			continue
		}
		if !sleep(ctx, pace) {
			return
		}
		select {
		case <-f.wake:
		case <-time.After(pollEvery):
		case <-ctx.Done():
		}
	}
}

// read reads the next part of the log, and reports whether there is more.
func (f *feed) read(ctx context.Context) (more bool, err error) {
	q := f.server.Store.DB.Read(ctx)
	if err := f.begin(q); err != nil {
		return false, err
	}
	from, wanted := f.wanted()
	page, err := eventlog.After(q, f.orgID, onlyOne(wanted), from)
	if err != nil {
		return false, err
	}
	if page.Lost {
		f.missing.add("", from.At)
	}
	events := slices.DeleteFunc(page.Events, func(e eventlog.Event) bool { return !wanted[""] && !wanted[hookOf(e.Position)] })
	for len(events) > 0 {
		some := events[:min(loadRows, len(events))]
		loaded, n, err := f.server.load(ctx, unloaded{to: f.audience, events: some, missing: f.missing, limit: feedBytes})
		if err != nil {
			return false, err
		}
		f.add(loaded, events[n-1].Position)
		events = events[n:]
	}
	f.add(nil, page.End)
	return page.More, nil
}

// onlyOne returns a set's only webhook, or "".
func onlyOne(hooks map[string]bool) string {
	if len(hooks) != 1 {
		return ""
	}
	return slices.Collect(maps.Keys(hooks))[0]
}

// begin sets a new feed's position.
func (f *feed) begin(q db.Querier) error {
	f.mu.Lock()
	started := f.started
	f.mu.Unlock()
	if started {
		return nil
	}
	head, err := eventlog.Head(q, f.orgID)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started = true
	f.start = head
	f.end = head
	return nil
}

// wanted returns the position to read from, and the webhooks whose frames connections want. From here
// on we have all of their frames.
func (f *feed) wanted() (from eventlog.Position, hooks map[string]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	hooks = map[string]bool{}
	for hook, h := range f.hooks {
		hooks[hook] = true
		if !h.hasFrom {
			h.hasFrom = true
			h.from = f.end
		}
	}
	return f.end, hooks
}

// add adds frames up to a position, drops the oldest ones if there are too many or they are too old,
// and wakes the connections.
func (f *feed) add(loaded []frame, end eventlog.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for _, one := range loaded {
		one.added = now
		f.keep(one)
	}
	for len(f.frames) > 0 && now.Sub(f.frames[0].added) > feedTime {
		f.drop()
	}
	if end.Compare(f.end) > 0 {
		f.end = end
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// keep appends a frame, and drops others to make room. If there is still no room, the feed begins
// after the frame.
func (f *feed) keep(one frame) {
	size := len(one.text)
	for f.bytes+size > feedBytes && len(f.frames) > 0 {
		f.drop()
	}
	for !f.memory.Take(int64(size)) {
		if len(f.frames) == 0 {
			f.start = one.at
			return
		}
		f.drop()
	}
	f.frames = append(f.frames, one)
	f.bytes += size
}

// drop drops the oldest frame.
func (f *feed) drop() {
	oldest := f.frames[0]
	f.frames[0] = frame{} // frees the text
	f.frames = f.frames[1:]
	f.bytes -= len(oldest.text)
	f.memory.Return(int64(len(oldest.text)))
	f.start = oldest.at
}

// ready is a feed's offer to a connection.
type ready struct {
	// After sending frames, the connection is at end.
	frames []frame
	end    eventlog.Position
	// behind reports whether the feed lacks the frames after the position.
	behind bool
	// changed is closed when there is more.
	changed <-chan struct{}
}

// after returns frames after a position, for one webhook or for all, up to about limit bytes.
func (f *feed) after(hook string, p eventlog.Position, limit int) ready {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := ready{end: p, changed: f.changed}
	h := f.hooks[hook]
	if !f.started || !h.hasFrom || p.Compare(f.start) < 0 || p.Compare(h.from) < 0 {
		r.behind = true
		return r
	}
	bytes := 0
	next := sort.Search(len(f.frames), func(i int) bool { return f.frames[i].at.Compare(p) > 0 })
	for _, one := range f.frames[next:] {
		if hook == "" || hook == one.hook() {
			r.frames = append(r.frames, one)
			bytes += len(one.text)
		}
		r.end = one.at
		if bytes >= limit {
			return r
		}
	}
	if f.end.Compare(r.end) > 0 {
		r.end = f.end
	}
	return r
}

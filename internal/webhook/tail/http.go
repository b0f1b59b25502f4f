package tail

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"steward/internal/auth"
	"steward/internal/budget"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/period"
	"steward/internal/web"
	"steward/internal/webhook"
	"steward/internal/webhook/eventlog"
)

const (
	// heartbeat is how often we send a comment.
	heartbeat = 15 * time.Second
	// batchBytes is roughly how much we write at once.
	batchBytes = 64 << 10
	// loadBytes is the memory for one load by a connection that is behind: a batch and one more event,
	// whose payload and headers can take six times their 64 KiB as JSON.
	loadBytes = 1 << 20
	// ownRows bounds the events that a connection that is behind loads at once. We do not keep events
	// beyond batchBytes while the batch waits to be written, but load them again.
	ownRows = 16
)

// From says where a tail begins.
type From struct {
	Since       period.Bound `query:"since" doc:"Begin with the events of this time; without it and Last-Event-ID, with those that are to come. A date means its beginning, 00:00 UTC"`
	LastEventID string       `header:"Last-Event-ID" doc:"Begin after the event with this id; takes precedence over since" example:"AAAAAAAAAAoABkQ2bTPgAAGTK8-MMFf4uZK-sQZVtPoBkyvPjDBX-LmSvrEGVbT6"`
	Follow      bool         `query:"follow" default:"true" doc:"Go on with events that are to come; if false, the response ends with the last event that was there before the request"`
}

// All handles GET /webhook/tail.
func (s *Server) All(ctx context.Context, in *struct{ From }) (web.Stream, error) {
	return s.stream(ctx, in.From, "")
}

// One handles GET /webhook/tail/{webhookId}.
func (s *Server) One(ctx context.Context, in *struct {
	webhook.Path
	From
},
) (web.Stream, error) {
	if _, err := s.Store.Get(ctx, auth.From(ctx).OrgID, in.ID); err != nil {
		return web.Stream{}, err
	}
	return s.stream(ctx, in.From, in.ID)
}

func (s *Server) stream(ctx context.Context, from From, webhookID string) (web.Stream, error) {
	_, hook, _ := strings.Cut(webhookID, "_")
	c := &connection{
		audience: audienceOf(auth.From(ctx)), server: s, hook: hook, webhookID: webhookID, rows: ownRows, missing: gaps{},
		revoked: s.rechecked(),
	}
	if err := s.enter(c, from.Follow); err != nil {
		return web.Stream{}, err
	}
	if err := s.read(ctx, c.orgID, func(q db.Querier) error { return c.begin(q, from) }); err != nil {
		s.leave(c)
		return web.Stream{}, err
	}
	return web.Stream{ContentType: "text/event-stream", Serve: c.serve}, nil
}

// begin sets a connection's position. It returns Invalid if the request's position is malformed.
func (c *connection) begin(q db.Querier, from From) (err error) {
	if !from.Follow {
		if c.newest, err = eventlog.Newest(q, c.orgID); err != nil {
			return err
		}
	}
	switch {
	case from.LastEventID != "":
		last, err := eventlog.ParsePosition("header.Last-Event-ID", from.LastEventID)
		if err != nil {
			return err
		}
		var lost bool
		c.at, lost, err = eventlog.Resume(q, c.orgID, last)
		if lost {
			c.missing.add("", last.At)
		}
		return err
	case from.Since != "":
		var faults errs.Faults
		since := from.Since.Parse(&faults, "query.since")
		if err := faults.Err(); err != nil {
			return err
		}
		c.at, err = eventlog.Seek(q, c.orgID, *since)
		return err
	}
	c.at, err = eventlog.Head(q, c.orgID)
	return err
}

// connection is an open tail.
type connection struct {
	audience
	server *Server
	// slot is charged while the connection is open, memory for the data it is about to send.
	slot, memory *budget.Charge

	feed      *feed  // nil if it does not follow
	newest    int64  // the last commit's number when it was opened; without a feed it ends there
	hook      string // its webhook's ULID, or "" for all
	webhookID string
	rows      int             // how many events it loads next
	missing   gaps            // to send with the next events that it loads
	revoked   <-chan struct{} // closed when the caller may have lost the right

	at   eventlog.Position // everything up to here was sent
	told eventlog.Position // the position that the client knows
	out  *http.ResponseController
	w    http.ResponseWriter
	r    *http.Request
}

// serve sends events until the client goes away, may no longer read them, or accepts nothing for 30 s
// (package web's write timeout).
func (c *connection) serve(w http.ResponseWriter, r *http.Request) {
	defer c.server.leave(c)
	c.w = w
	c.r = r
	c.out = http.NewResponseController(w)
	h := w.Header()
	h.Set("X-Accel-Buffering", "no") // keeps proxies from buffering events
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	if err := c.run(r.Context()); err != nil && r.Context().Err() == nil {
		web.Log(r.Context()).Debug("tail ended", "error", err)
		if c.feed == nil {
			panic(http.ErrAbortHandler) // otherwise the client would take the last event sent for the end
		}
	}
}

func (c *connection) run(ctx context.Context) error {
	if err := c.tell(true); err != nil { // gives the client a position even before the first event
		return err
	}
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		more, changed, err := c.advance(ctx)
		if err != nil {
			return err
		}
		if more {
			changed = always
		} else if changed == nil {
			return c.tell(c.at != c.told)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.server.closed:
			return errClosed
		case <-c.revoked:
			c.revoked = c.server.rechecked()
			if err := c.check(ctx); err != nil {
				return err
			}
		case <-ticker.C:
			if err := c.check(ctx); err != nil {
				return err
			}
			if err := c.tell(c.at != c.told); err != nil {
				return err
			}
		case <-changed:
		}
	}
}

var (
	errClosed = errs.New(errs.Unavailable, "the server is stopping")
	errRole   = errs.New(errs.Forbidden, "the role has changed")
	always    = func() chan struct{} { c := make(chan struct{}); close(c); return c }()
)

// check returns an error if the caller may no longer see the events, or must now see them in another
// form. In that case the client reconnects and gets that form.
func (c *connection) check(ctx context.Context) error {
	caller, err := c.server.Authorize(c.r)
	if err != nil {
		return err
	}
	if audienceOf(caller) != c.audience {
		return errRole
	}
	if c.webhookID == "" {
		return nil
	}
	_, err = c.server.Store.Get(ctx, c.orgID, c.webhookID)
	return err
}

// tell sends a comment. If position is set, it includes the connection's position, as an event without
// data: clients note its id but do not show it. While a gap is still unsent, the client keeps the
// position before it, so that we tell it after a reconnect too.
func (c *connection) tell(position bool) error {
	text := ":\n\n"
	if position && len(c.missing) == 0 {
		text = ":\nid: " + c.at.String() + "\n\n"
		c.told = c.at
	}
	return c.write([]byte(text))
}

// advance sends the next events. It reports whether there are more. If not, it returns a channel that
// is closed when there may be more, or nil at the end of a tail that does not follow.
func (c *connection) advance(ctx context.Context) (more bool, changed <-chan struct{}, err error) {
	if c.feed == nil {
		return c.advanceAlone(ctx)
	}
	next := c.feed.after(c.hook, c.at, batchBytes)
	if next.behind {
		more, err = c.catchUp(ctx)
		return more, next.changed, err
	}
	all, err := c.missing.before(next.frames)
	if err != nil {
		return false, nil, err
	}
	return len(all) > 0, next.changed, c.send(ctx, all, next.end)
}

// advanceAlone is advance without a feed. Events committed before the tail was opened may not be
// settled yet because another transaction is still running, so it may have to wait.
func (c *connection) advanceAlone(ctx context.Context) (more bool, changed <-chan struct{}, err error) {
	var settled bool
	err = c.server.limited(ctx, c.orgID, func() error {
		settled, err = eventlog.IsSettled(c.server.Store.DB.Read(ctx), c.newest)
		return err
	})
	if err != nil {
		return false, nil, err
	}
	more, err = c.catchUp(ctx)
	if more || settled || err != nil {
		return more, nil, err
	}
	wait := make(chan struct{})
	time.AfterFunc(pace, func() { close(wait) })
	return false, wait, nil
}

// catchUp reads the log without the feed, and reports whether there is more.
func (c *connection) catchUp(ctx context.Context) (more bool, err error) {
	var page eventlog.Page
	err = c.server.limited(ctx, c.orgID, func() error {
		page, err = eventlog.After(c.server.Store.DB.Read(ctx), c.orgID, c.hook, c.at)
		return err
	})
	if err != nil {
		return false, err
	}
	if page.Lost {
		c.missing.add("", c.at.At)
	}
	for events := page.Events; len(events) > 0; {
		some := events[:min(c.rows, len(events))]
		if err := c.memory.Wait(ctx, loadBytes); err != nil {
			return false, err
		}
		loaded, n, err := c.server.load(ctx, unloaded{to: c.audience, events: some, missing: c.missing, limit: batchBytes})
		if err != nil {
			return false, err
		}
		if err := c.send(ctx, loaded, some[n-1].Position); err != nil {
			return false, err
		}
		events = events[n:]
		c.rows = min(2*n, ownRows)
	}
	c.at = page.End
	return page.More || len(page.Events) > 0, nil
}

// send writes frames, all at once, and moves the connection to end. We charge their memory while they
// wait for their turn and for the client.
func (c *connection) send(ctx context.Context, all []frame, end eventlog.Position) error {
	defer c.memory.Release()
	if len(all) == 0 {
		c.at = end
		return nil
	}
	size := 0
	for _, one := range all {
		size += len(one.text)
	}
	if err := c.hold(ctx, int64(size)); err != nil {
		return err
	}
	if err := c.server.output.Enter(ctx, c.orgID); err != nil {
		return err
	}
	c.server.output.Leave(float64(size))
	buf := buffers.Get().(*bytes.Buffer)
	defer func() {
		if buf.Cap() <= burstBytes {
			buffers.Put(buf)
		}
	}()
	buf.Reset()
	buf.Grow(size)
	for _, one := range all {
		buf.Write(one.text)
	}
	c.told = all[len(all)-1].at
	c.at = end
	return c.write(buf.Bytes())
}

// hold adjusts the connection's charge to n bytes. It waits for memory if n is more than it has.
func (c *connection) hold(ctx context.Context, n int64) error {
	has := c.memory.Used()
	if n < has {
		c.memory.Return(has - n)
	}
	if n <= has {
		return nil
	}
	return c.memory.Wait(ctx, n-has)
}

// buffers are reused between writes.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func (c *connection) write(text []byte) error {
	if _, err := c.w.Write(text); err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return c.out.Flush()
}

package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Store is an open keyspace. One goroutine runs its commands.
type Store struct {
	options Options
	fs      FS
	table   table
	// Once the log is larger than minRewrite bytes, we start to rewrite it, at about rewriteStep bytes
	// a turn.
	minRewrite  int64
	rewriteStep int

	// The store's goroutine owns the fields from here to mu.

	keys   keyspace
	limits configuration
	// charged counts the bytes taken from Charge.
	charged int64
	log     *log
	// opening ends when nobody wants the store to be opened any more.
	opening   context.Context
	replaying bool
	// current is the current request's call. It lives here so that a request need not allocate one.
	current call
	// running is the client whose command runs, or nil.
	running *Client
	// turn holds the clients with replies since the last sync.
	turn []*Client
	// rest holds the clients that the current turn has not reached yet.
	rest []*Client
	slot turnSlot
	// watched has the clients that watch each key.
	watched subscribers
	// waiting has the clients blocked on each key, in the order they asked. ready lists the keys whose
	// clients may be able to go on.
	waiting map[string][]*Client
	ready   []string
	timers  timers
	pause   pause
	// channels, patterns and shards hold the subscribers to each name.
	channels, patterns, shards subscribers
	tracked                    trackedKeys
	names                      names
	stats                      stats
	reported                   reported
	// opened is the time the store was opened, in milliseconds.
	opened  int64
	scripts scripting
	// panicked reports whether a command has left the keyspace in an unknown state.
	panicked bool
	failed   error

	ended chan struct{}
	wake  chan struct{}

	// mu guards the fields below.
	mu sync.Mutex
	// runnable holds clients with requests in their inbox, and jobs functions to run.
	runnable []*Client
	jobs     []job
	// clients holds every client that has run a request here.
	clients map[*Client]bool
	// pinned counts the clients that would lose state if we closed the store, plus one for a pause.
	pinned int
	used   time.Time
	closed bool
	// unused reports whether we closed the store because no client needed it.
	unused bool
}

// job is a function for the store's goroutine to run.
type job struct {
	run func()
	// done is closed once the job's changes are durable. It may be nil.
	done chan struct{}
}

// stats counts what INFO shows.
type stats struct {
	commands, expired, evicted, hits, misses, changes, errorReplies int64
	// errors counts error replies by their first word.
	errors map[string]int64
	// of has the statistics for each command.
	of map[*command]*commandStats
}

// Open opens the store in a directory, or creates one. It gives up when ctx ends.
func Open(ctx context.Context, dir FS, o Options) (*Store, error) {
	s := newStore(dir, o)
	s.opening = ctx
	if err := s.load(); err != nil {
		s.releaseMemory()
		return nil, fmt.Errorf("open key-value store: %w", err)
	}
	s.opening = context.Background()
	s.settleMemory()
	s.report()
	go s.loop()
	return s, nil
}

// newStore returns a store that has not read its log yet.
func newStore(dir FS, o Options) *Store {
	s := &Store{
		options: o.withDefaults(), fs: dir, table: newTable(), slot: turnSlot{limit: slowTurn},
		limits:     configuration{encodings: defaultEncodings(), busyReplyThreshold: 5000},
		minRewrite: minRewrite, rewriteStep: rewriteStep, opening: context.Background(),
		channels: subscribers{}, patterns: subscribers{}, shards: subscribers{},
		tracked: trackedKeys{readers: subscribers{}, broadcasts: map[*Client]bool{}},
		ended:   make(chan struct{}), wake: make(chan struct{}, 1), clients: map[*Client]bool{},
	}
	s.used = s.options.Now()
	s.opened = s.now()
	return s
}

// load reads the keyspace from the log.
func (s *Store) load() error {
	s.keys = newKeyspace()
	s.limits.keptSettings = keptSettings{}
	s.watched = subscribers{}
	s.waiting = map[string][]*Client{}
	l, err := openLog(s.fs)
	if err != nil {
		return err
	}
	l.keyOf = s.keyOf
	s.log = l
	if err := s.replay(); err != nil {
		return errors.Join(err, l.close())
	}
	return nil
}

// keyOf returns an effect's key, and whether it has one.
func (s *Store) keyOf(args []string) (string, bool) {
	cmd, err := s.table.find(args)
	if err != nil {
		return "", false
	}
	keys := cmd.keysOf(args)
	if len(keys) == 0 {
		return "", false
	}
	return keys[0], true
}

// replay runs the log's effects, cuts off everything after the last whole frame, and makes the rest
// durable.
func (s *Store) replay() error {
	s.replaying = true
	s.log.off = true
	x := &call{client: &Client{}, out: &reply{}}
	torn, err := s.log.replay(func(args []string) error {
		if err := s.opening.Err(); err != nil {
			return err
		}
		return s.apply(args, x)
	})
	s.replaying = false
	s.log.off = false
	if err != nil {
		return err
	}
	if torn > 0 {
		s.options.Log.Warn("cut a transaction that was not written whole off the log of a key-value store", "bytes", torn)
	}
	s.log.base = min(s.log.size, s.keys.memory)
	// We do not know the size at the last rewrite. This is close.
	s.log.live = s.log.size
	return s.log.settle(torn)
}

// apply runs one effect from the log. It overwrites x, a scratch call, but keeps its client and reply.
func (s *Store) apply(args []string, x *call) error {
	cmd, err := s.table.find(args)
	if err != nil {
		return err
	}
	*x = call{Store: s, client: x.client, cmd: cmd, args: args, out: x.out, now: s.now(), nested: true}
	x.out.b = x.out.b[:0]
	err = s.runRecovered(x)
	s.panicked = false
	if err == nil && s.keys.memory > s.charged && !s.chargeMemory(true) {
		return ErrNoMemory
	}
	return err
}

// now returns the time in milliseconds.
func (s *Store) now() int64 { return s.options.Now().UnixMilli() }

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }

// wakeUp makes the store's goroutine look for work.
func (s *Store) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// ErrClosed is returned by a closed store.
var ErrClosed = errors.New("ERR the store is closed")

// enqueue schedules a client's requests. It returns false if the store is closed.
func (s *Store) enqueue(c *Client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.runnable = append(s.runnable, c)
	s.wakeUp()
	return true
}

// do runs a function in the store's goroutine and waits. On return the function's changes are durable,
// unless writing the log failed.
func (s *Store) do(f func()) error {
	done := make(chan struct{})
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.jobs = append(s.jobs, job{f, done})
	s.wakeUp()
	s.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-s.ended:
		return ErrClosed
	}
}

// takeWork takes the waiting clients and functions, and reports whether the store has been closed.
func (s *Store) takeWork() (clients []*Client, jobs []job, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clients, jobs = s.runnable, s.jobs
	s.runnable = nil
	s.jobs = nil
	if len(clients) > 0 || len(jobs) > 0 {
		s.used = s.options.Now()
	}
	return clients, jobs, s.closed
}

// expirePause is roughly how long expired keys stay in memory.
const expirePause = 100 * time.Millisecond

// loop runs turns until the store is closed.
func (s *Store) loop() {
	defer close(s.ended)
	timer := time.NewTimer(expirePause)
	defer timer.Stop()
	for {
		clients, jobs, closed := s.takeWork()
		if closed {
			s.end()
			return
		}
		more := s.runTurn(clients, jobs)
		if more || s.failed != nil {
			continue
		}
		timer.Reset(s.untilTimer())
		select {
		case <-s.wake:
		case <-timer.C:
		}
	}
}

// untilTimer returns how long the store may sleep.
func (s *Store) untilTimer() time.Duration {
	pause := time.Hour
	if e, ok := s.keys.expiring.Min(); ok {
		pause = max(time.Duration(e.expires-s.now())*time.Millisecond, expirePause)
	}
	if !s.pause.until.IsZero() {
		pause = min(pause, max(s.pause.until.Sub(s.options.Now()), 0))
	}
	if at, ok := s.timers.next(); ok {
		pause = min(pause, max(at.Sub(s.options.Now()), 0))
	}
	return pause
}

// A turn runs at most turnCommands requests for each client, starts no further client after turnTime,
// and deletes at most turnExpired keys.
const (
	turnCommands = 256
	turnTime     = 20 * time.Millisecond
	turnExpired  = 1000
)

// runTurn runs functions and clients' requests, makes their changes durable, and sends the replies. It
// reports whether there is more to do at once.
func (s *Store) runTurn(clients []*Client, jobs []job) bool {
	defer closeDone(jobs)
	s.slot.begin(s.options.Enter)
	for _, j := range jobs {
		j.run()
	}
	for i, c := range clients {
		if i > 0 && s.slot.took() > turnTime {
			s.postpone(clients[i:])
			break
		}
		s.rest = clients[i+1:]
		s.runClient(c)
	}
	s.rest = nil
	s.runTimers()
	more := !s.paused() && s.expireSome(turnExpired)
	s.serveBlocked()
	s.broadcast()
	s.slot.end()
	if s.panicked {
		s.panicked = false
		s.fail(errors.New("a command failed"))
		return true
	}
	if err := s.log.sync(); err != nil {
		s.fail(err)
		return true
	}
	s.sendReplies()
	rewriting := s.continueRewrite()
	s.settleMemory()
	s.report()
	return more || rewriting
}

// postpone moves clients to the front of the queue.
func (s *Store) postpone(clients []*Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runnable = append(slices.Clone(clients), s.runnable...)
	s.wakeUp()
}

// closeDone wakes the callers that wait for jobs.
func closeDone(jobs []job) {
	for _, j := range jobs {
		if j.done != nil {
			close(j.done)
		}
	}
}

// sendReplies hands the turn's replies to the clients.
func (s *Store) sendReplies() {
	for _, c := range s.turn {
		c.flush()
	}
	clear(s.turn)
	s.turn = s.turn[:0]
}

// fail answers every request in the turn with an error, since none of its changes were kept, and reads
// the store from its log again. If that fails too, it closes the store.
func (s *Store) fail(cause error) {
	s.options.Log.Error("writing to the log of a key-value store failed", "error", cause)
	for _, c := range s.turn {
		c.failReplies("MISCONF Errors writing to the log of the store: " + cause.Error())
	}
	s.sendReplies()
	err := s.log.discard()
	if err == nil {
		s.forgetClients()
		s.dropTracked()
		err = s.load()
	}
	if err != nil {
		s.options.Log.Error("a key-value store is closed", "error", err)
		s.failed = err
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
	}
}

// end closes the clients and the log of a closed store. If the store was closed while in use, waiting
// requests get an error. Otherwise they arrived later, and their clients open the store again.
func (s *Store) end() {
	s.forgetClients()
	s.dropTracked()
	if !s.unused {
		for _, c := range s.attached() {
			c.refuse(ErrClosed)
		}
	}
	if s.failed == nil {
		s.failed = s.log.close()
	}
	s.releaseMemory()
	s.scripts.forget(s.scripts.lua)
	s.scripts.forget(s.scripts.functions)
	s.reportAs(reported{commands: s.stats.commands})
}

// Close closes the store after its current turn. It returns an error if the log cannot be closed.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wakeUp()
	<-s.ended
	return s.failed
}

// CloseUnused closes the store if no client needs it and nobody has used it since the given time. It
// reports whether it did.
func (s *Store) CloseUnused(since time.Time) bool {
	s.mu.Lock()
	if s.closed || s.pinned > 0 || len(s.runnable) > 0 || len(s.jobs) > 0 || s.used.After(since) || s.hasRequests() {
		s.mu.Unlock()
		return false
	}
	s.closed = true
	s.unused = true
	s.mu.Unlock()
	s.wakeUp()
	<-s.ended
	return true
}

// Used returns the time of the store's last use.
func (s *Store) Used() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// Ended is closed when the store has closed, by Close or because it could not go on.
func (s *Store) Ended() <-chan struct{} { return s.ended }

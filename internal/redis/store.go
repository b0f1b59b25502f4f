package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Options are those of a store. Zero values mean the defaults.
type Options struct {
	// Log is where failures are reported.
	Log *slog.Logger
	// Memory is the maximum number of bytes of keys and values; 256 MiB by default. Policy says what happens when
	// there is no memory left. Clients of the store may set another policy, and less memory.
	Memory int64
	Policy Policy
	// Charge is charged for keys, values and the buffers of the log. It may be nil.
	Charge Memory
	// ScriptCharge is charged for what scripts take. It may be nil.
	ScriptCharge Memory
	// Reclaim is called if Charge has no room for n bytes. It returns whether to try again, for which a store that is
	// being opened can wait. It may be nil.
	Reclaim func(n int64, opening bool) bool
	// Counters count what the store does.
	Counters *Counters
	// Reply is the maximum number of bytes of a reply, Queue that of commands of a transaction, and QueueBytes
	// that of their bytes; 0 if there is none.
	Reply, Queue, QueueBytes int
	// Writable returns an error in the words of Redis while nothing may be written, such as when the disk is
	// almost full. Commands that only delete are run all the same. It may be nil.
	Writable func() error
	// Enter waits for a slot of a processor, which the function that it returns gives back. The store has one while it
	// runs a script, and in its turns for some time after one that took long. It may be nil.
	Enter func() (leave func())
	// ScriptTime is how long a script may run; 5 seconds by default.
	ScriptTime time.Duration
	// Now returns the time.
	Now func() time.Time
}

// Policy is what happens when a store has no memory left, in the words of Redis's maxmemory-policy.
type Policy string

// The policies.
const (
	NoEviction  Policy = "noeviction"
	AllKeysLRU  Policy = "allkeys-lru"
	VolatileTTL Policy = "volatile-ttl"
)

const defaultMemory = 256 << 20

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Memory == 0 {
		o.Memory = defaultMemory
	}
	if o.Policy == "" {
		o.Policy = NoEviction
	}
	if o.ScriptTime == 0 {
		o.ScriptTime = defaultScriptTime
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Counters == nil {
		o.Counters = &Counters{}
	}
	return o
}

// Store is an open keyspace. One goroutine runs its commands.
type Store struct {
	options Options
	fs      FS
	table   table
	// A rewriting of the log begins when it is larger than minRewrite bytes, and writes about rewriteStep
	// bytes in a turn.
	minRewrite  int64
	rewriteStep int

	// What follows belongs to the goroutine of the store.

	keys   keyspace
	limits configuration
	// charged are the bytes that were taken of Charge.
	charged int64
	log     *log
	// opening ends when the store is not to be opened any more.
	opening   context.Context
	replaying bool
	// current is the call of the current request. It is here so that requests need no memory for one.
	current call
	// running is the client whose command runs, or nil.
	running *Client
	// turn are the clients that have replies since the last sync.
	turn []*Client
	// rest are the clients that the current turn has not come to.
	rest []*Client
	slot turnSlot
	// watched are the clients that watch a key, by key.
	watched map[string]map[*Client]bool
	// waiting are the blocked clients that wait for a key, in the order of their requests, and ready the keys
	// of which some may go on.
	waiting map[string][]*Client
	ready   []string
	timers  timers
	pause   pause
	// channels, patterns and shards are the subscribers of each.
	channels, patterns, shards subscribers
	tracked                    trackedKeys
	stats                      stats
	reported                   reported
	// opened is when the store was opened, in milliseconds.
	opened  int64
	scripts scripting
	// panicked is whether a command has left the keyspace in an unknown state.
	panicked bool
	failed   error

	ended chan struct{}
	wake  chan struct{}

	// mu guards what follows.
	mu sync.Mutex
	// runnable are clients with requests in their inbox, jobs functions to run.
	runnable []*Client
	jobs     []job
	// clients are those that have run requests.
	clients map[*Client]bool
	// pinned is the number of clients whose state would be lost if the store were closed, and one more for a pause.
	pinned int
	used   time.Time
	closed bool
	// unused is set if the store was closed because no client needed it.
	unused bool
}

// job is a function that the goroutine of a store runs.
type job struct {
	run func()
	// done is closed when what it changed is durable. It may be nil.
	done chan struct{}
}

// stats counts what INFO tells.
type stats struct {
	commands, expired, evicted, hits, misses, changes, errorReplies int64
	// errors are the error replies by their first word.
	errors map[string]int64
	// of are the numbers of each command.
	of map[*command]*commandStats
}

// Open opens the store of a directory, or creates one. It gives up when ctx ends.
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

// newStore returns a store that has not been read from its log.
func newStore(dir FS, o Options) *Store {
	s := &Store{
		options: o.withDefaults(), fs: dir, table: newTable(),
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
	s.watched = map[string]map[*Client]bool{}
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

// keyOf returns the key of an effect, and whether it has one.
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

// replay runs the effects of the log, cuts off what is behind the last whole frame, and makes the rest
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
	s.log.live = s.log.size // about what it had once
	return s.log.settle(torn)
}

// apply runs an effect of the log, in the place of a call of which it needs the client and the reply. What that
// had is overwritten.
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

// wakeUp has the goroutine of the store look for work.
func (s *Store) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// ErrClosed is returned for a store that is closed.
var ErrClosed = errors.New("ERR the store is closed")

// enqueue has the store run the requests of a client. It reports whether the store is open.
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

// do runs a function in the goroutine of the store and waits for it. What it changed is durable then, unless
// the log could not be written.
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

// takeWork returns clients and functions that wait, and whether the store has been closed.
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

// expirePause is how long expired keys stay in memory, about.
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

// A turn runs at most turnCommands requests of a client, and those of no other client after turnTime. It deletes at
// most turnExpired keys.
const (
	turnCommands = 256
	turnTime     = 20 * time.Millisecond
	turnExpired  = 1000
)

// runTurn runs requests of clients and functions, makes what they changed durable, and sends the
// replies. It reports whether there is more to do at once.
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

// postpone has clients be the first of the next turn.
func (s *Store) postpone(clients []*Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runnable = append(slices.Clone(clients), s.runnable...)
	s.wakeUp()
}

// closeDone tells those that wait for functions.
func closeDone(jobs []job) {
	for _, j := range jobs {
		if j.done != nil {
			close(j.done)
		}
	}
}

// sendReplies hands the replies of the turn over to the clients.
func (s *Store) sendReplies() {
	for _, c := range s.turn {
		c.flush()
	}
	clear(s.turn)
	s.turn = s.turn[:0]
}

// fail answers all requests of a turn with an error, since nothing of it was kept, and reads the store
// from its log again. If that fails too, the store is closed.
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

// end closes the clients and the log when the store is closed. Requests that wait are answered with an error if it was
// closed while it was in use. Otherwise they have come since, and their clients open the store again.
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

// CloseUnused closes the store if no client needs it and it was not used since a time. It reports whether
// it did.
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

// Used returns when the store was last used.
func (s *Store) Used() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// Ended is closed when the store has been closed, by Close or because it could not go on.
func (s *Store) Ended() <-chan struct{} { return s.ended }

package redis

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestSimulatedCrashes runs commands of several clients on a disk that stops or fails at any operation, and
// checks what is there afterwards: all that was acknowledged; of the requests of the last turn those up to
// any one of them, each as a whole.
func TestSimulatedCrashes(t *testing.T) {
	rewritten := 0
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		m := &machine{t: rt, disk: newDisk(rand.New(rand.NewPCG(seed, 0))), now: time.UnixMilli(1e12)}
		m.states = []keys{{}}
		m.open()
		for range rapid.IntRange(1, 4).Draw(rt, "rounds") {
			m.round()
		}
		rewritten += m.rewritten
	})
	t.Log("the log was rewritten", rewritten, "times")
	if rewritten == 0 && !t.Failed() {
		t.Error("the log was never rewritten")
	}
}

// keys are those of a store.
type keys map[string]stored

type stored struct {
	expires int64
	dump    string
}

func (s stored) String() string { return fmt.Sprintf("%d %q", s.expires, s.dump) }

// keysOf returns the keys of a store.
func keysOf(s *Store) keys {
	all := keys{}
	s.keys.entries.All(func(e *entry) bool {
		all[e.key] = stored{e.expires, string(dump(e.value))}
		return true
	})
	return all
}

// at returns the keys that have not expired at a time.
func (k keys) at(now time.Time) keys {
	left := maps.Clone(k)
	maps.DeleteFunc(left, func(_ string, v stored) bool { return v.expires != 0 && v.expires <= now.UnixMilli() })
	return left
}

// machine runs a store on a disk that stops.
type machine struct {
	t       *rapid.T
	disk    *disk
	now     time.Time
	store   *Store
	clients []*Client
	// states are the keys after each request; the first of them is acknowledged.
	states    []keys
	rewritten int
}

// open opens the store until that succeeds, and checks its keys.
func (m *machine) open() {
	for attempt := 0; ; attempt++ {
		m.store = newStore(m.disk, Options{
			Now:    func() time.Time { return m.now },
			Memory: rapid.SampledFrom([]int64{0, 2000}).Draw(m.t, "memory"),
			Policy: AllKeysLRU,
		})
		m.store.minRewrite = 500
		m.store.rewriteStep = 1
		err := m.store.load()
		if err == nil {
			break
		}
		if attempt > 3 {
			m.t.Fatalf("the store cannot be opened: %v", err)
		}
		m.restart()
	}
	checkEffects(m.t, m.store)
	got := keysOf(m.store).at(m.now)
	for _, state := range m.states {
		if want := state.at(m.now); reflect.DeepEqual(want, got) {
			m.states = []keys{state}
			m.clients = nil
			return
		}
	}
	m.t.Fatalf("%v is none of the %d states that may be there; acknowledged was %v", got, len(m.states), m.states[0].at(m.now))
}

// checkEffects checks that the effects of a log have one key at most, as rewriting it needs.
func checkEffects(t rapid.TB, s *Store) {
	l := &log{file: s.log.file}
	if _, err := l.replay(func(args []string) error {
		cmd, err := s.table.find(args)
		if err == nil && len(cmd.keysOf(args)) > 1 {
			err = errors.New("it has several keys")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// restart has the disk go on after its machine has stopped.
func (m *machine) restart() {
	if rapid.Bool().Draw(m.t, "power failure") {
		m.disk.powerFailed()
	} else {
		m.disk.killed()
	}
}

// round runs turns until the disk stops, or some, and opens the store again.
func (m *machine) round() {
	at := m.disk.operations + rapid.IntRange(1, 40).Draw(m.t, "stop or fail after")
	if rapid.Bool().Draw(m.t, "stop") {
		m.disk.stopAt = at
	} else {
		m.disk.failAt = at
		m.disk.failing = rapid.IntRange(1, 3).Draw(m.t, "failing")
		m.disk.fault = rapid.SampledFrom([]error{syscall.EIO, syscall.ENOSPC}).Draw(m.t, "fault")
	}
	for range rapid.IntRange(1, 30).Draw(m.t, "turns") {
		m.turn()
		if m.disk.stopped || m.store.failed != nil {
			break
		}
	}
	m.restart()
	m.open()
}

// turn runs a turn of some requests.
func (m *machine) turn() {
	m.now = m.now.Add(time.Duration(rapid.IntRange(0, 30).Draw(m.t, "milliseconds")) * time.Millisecond)
	m.connect()
	before := m.store.log
	requests := map[*Client]int{}
	for _, c := range m.clients {
		if c.blocked != nil {
			requests[c] = 1
		}
	}
	var jobs []job
	for range rapid.IntRange(1, 6).Draw(m.t, "requests") {
		c := rapid.SampledFrom(m.clients).Draw(m.t, "client")
		args := someRequest(m.t)
		jobs = append(jobs, job{run: func() {
			if m.mayRun(c, args) {
				m.execute(c, args)
				requests[c]++
			}
		}})
	}
	jobs = append(jobs, job{run: func() { // its reply tells whether the turn has failed
		c := m.clients[slices.IndexFunc(m.clients, func(c *Client) bool { return c.blocked == nil })]
		m.execute(c, []string{"PING"})
		requests[c]++
	}})
	file := before.file
	m.store.runTurn(nil, jobs)
	m.waitForSync()
	if m.disk.stopped {
		return // no client has received a reply
	}
	if m.failed(requests) {
		m.checkFailed()
		return
	}
	m.states = m.states[len(m.states)-1:]
	if m.store.log == before && before.file != file {
		m.rewritten++
	}
	if got, want := keysOf(m.store).at(m.now), m.states[0].at(m.now); m.store.failed == nil && !reflect.DeepEqual(got, want) {
		m.t.Fatalf("%v, want %v", got, want)
	}
}

// mayRun reports whether a client can run a request: it is not blocked, nor would be the second.
func (m *machine) mayRun(c *Client, args []string) bool {
	cmd, err := m.store.table.find(args)
	blocks := err == nil && cmd.flags.has(flagBlocking)
	for _, other := range m.clients {
		if other.blocked != nil && (blocks || other == c) {
			return false
		}
	}
	return true
}

// execute runs a request, and then the one of a blocked client that goes on, and keeps the keys after each.
func (m *machine) execute(c *Client, args []string) {
	m.store.turn = append(m.store.turn, c)
	m.store.run(c, args)
	m.store.log.endFrame()
	m.states = append(m.states, keysOf(m.store))
	m.store.serveBlocked()
	m.states = append(m.states, keysOf(m.store))
}

// connect replaces clients that were closed.
func (m *machine) connect() {
	m.clients = append(m.clients, make([]*Client, 3-min(len(m.clients), 3))...)
	for i, c := range m.clients {
		if c != nil && !c.closed {
			continue
		}
		c = NewClient(int64(i), "")
		c.store = m.store
		m.store.clients[c] = true
		m.clients[i] = c
	}
}

// waitForSync waits until a sync in the background has ended, so that tests can be repeated.
func (m *machine) waitForSync() {
	if r := m.store.log.rewrite; r != nil && r.synced != nil {
		r.synced <- <-r.synced
	}
}

// failed reports whether the turn has failed, in which case it checks that all replies are errors.
func (m *machine) failed(requests map[*Client]int) bool {
	failed, total := 0, 0
	for _, c := range m.clients {
		replies, in := 0, bufio.NewReader(bytes.NewReader(c.outbox))
		for {
			reply, err := readReply(in)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				m.t.Fatal(err)
			}
			replies++
			total++
			if text, ok := reply.(failure); ok && strings.HasPrefix(string(text), "MISCONF") {
				failed++
			}
		}
		if c.blocked != nil {
			replies++ // it will have one
		}
		if !c.closed && replies != requests[c] {
			m.t.Fatalf("a client has %d replies to %d requests", replies, requests[c])
		}
		c.outbox = nil
	}
	if failed > 0 && failed != total {
		m.t.Fatalf("%d of %d requests failed", failed, total)
	}
	return failed > 0
}

// checkFailed checks that the store has gone on without what has failed, unless it is closed.
func (m *machine) checkFailed() {
	if m.store.failed != nil {
		return
	}
	if got, want := keysOf(m.store).at(m.now), m.states[0].at(m.now); !reflect.DeepEqual(got, want) {
		m.t.Fatalf("after a failure %v, want %v", got, want)
	}
	m.states = m.states[:1]
}

// someRequest draws a request that often changes something.
func someRequest(t *rapid.T) []string {
	key := "k" + strconv.Itoa(rapid.IntRange(0, 60).Draw(t, "number"))
	value := strings.Repeat("v", rapid.IntRange(0, 100).Draw(t, "length"))
	switch rapid.IntRange(0, 20).Draw(t, "request") {
	case 0:
		return []string{"MULTI"}
	case 1, 2:
		return []string{"EXEC"}
	case 3:
		return []string{"SET", key, value, "PX", strconv.Itoa(rapid.IntRange(1, 200).Draw(t, "expires"))}
	case 4:
		return []string{"PEXPIRE", key, strconv.Itoa(rapid.IntRange(1, 200).Draw(t, "expires"))}
	case 5:
		return []string{"RPUSH", "list", value}
	case 6:
		return []string{"BLMOVE", "list", "other", "LEFT", "RIGHT", "0.02"}
	case 7:
		return []string{"MSET", key, value, "k1", value, "k2", value}
	case 8:
		return []string{"DEL", key, "list", "a"}
	case 9, 10, 11, 12:
		e := rapid.SampledFrom(examples()).Draw(t, "command")
		return append(strings.Fields(e.name), e.draw(t)...)
	case 13:
		return []string{"APPEND", key, value}
	default:
		return []string{"SET", key, value}
	}
}

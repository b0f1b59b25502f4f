package redis

import (
	"bufio"
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// conversation has clients of a redis-server and of a store, one of each for each number. The store has no
// goroutine of its own.
type conversation struct {
	socket string
	theirs [conversationClients]*wire
	// ids are those of the clients of redis-server.
	ids [conversationClients]int64
	// admin is a connection of which the store has none.
	admin *wire
	ours  []*Client
	local *runner
	disk  *disk
}

const conversationClients = 3

func newConversation(t *testing.T) *conversation {
	v := &conversation{socket: startRedis(t)}
	v.admin = dial(t, v.socket)
	return v
}

// reconnect closes the connections of a client of redis-server, if there is one, and opens another.
func (v *conversation) reconnect(t rapid.TB, i int) {
	if v.theirs[i] != nil {
		_ = v.theirs[i].conn.Close()
	}
	v.theirs[i] = connect(t, v.socket)
	v.ids[i], _ = v.theirs[i].pipeline(t, [][]string{{"CLIENT", "ID"}})[0].(int64)
}

// compareConversations runs sequences of examples, each request by one of several clients, and compares what
// all of them receive after each. IDs of clients are written as #0.
func compareConversations(t *testing.T, all []example) {
	v := newConversation(t)
	rapid.Check(t, func(rt *rapid.T) {
		ended := false
		defer func() {
			if !ended {
				v.hangUp()
			}
		}()
		v.begin(rt)
		for range rapid.IntRange(1, 30).Draw(rt, "length") {
			i := rapid.IntRange(0, conversationClients-1).Draw(rt, "client")
			e := rapid.SampledFrom(all).Draw(rt, "command")
			v.compare(rt, i, e, e.request(rt))
		}
		v.end(rt)
		ended = true
	})
	v.hangUp()
}

// begin empties both, and makes the clients new ones of different versions of the protocol.
func (v *conversation) begin(t *rapid.T) {
	for i := range v.theirs {
		if v.theirs[i] == nil {
			v.reconnect(t, i)
		}
	}
	v.admin.pipeline(t, [][]string{{"FLUSHALL"}})
	v.disk = newDisk(nil)
	s := newStore(v.disk, Options{})
	if err := s.load(); err != nil {
		t.Fatal(err)
	}
	v.local = &runner{t: t, store: s}
	v.ours = nil
	registry := &Clients{}
	for i := range conversationClients {
		c := v.local.client(v.ids[i])
		c.access.Clients = registry
		registry.add(c)
		v.ours = append(v.ours, c)
		if rapid.Bool().Draw(t, "RESP3") {
			c.out.resp3 = true
			v.theirs[i].pipeline(t, [][]string{{"HELLO", "3"}})
		}
	}
}

// compare has a client run a request, and compares what all clients receive.
func (v *conversation) compare(t *rapid.T, client int, e example, args []string) {
	args = v.withIDs(args)
	ours := v.runOurs(client, args)
	v.theirs[client].send(t, [][]string{args})
	if len(ours[client]) == 0 {
		v.admin.pipeline(t, [][]string{{"PING"}}) // the request has run then
	}
	for i, want := range ours {
		theirs := v.receive(t, i, len(want))
		if !v.same(e, theirs, want) {
			t.Fatalf("client %d: %q: client %d receives:\nredis-server %#v\nhere         %#v", client, args, i, theirs, want)
		}
	}
}

// withIDs replaces #0 and the like by the IDs of clients, which are the same on both.
func (v *conversation) withIDs(args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		if len(arg) == 2 && arg[0] == '#' && arg[1] >= '0' && int(arg[1]-'0') < conversationClients {
			args[i] = strconv.FormatInt(v.ids[arg[1]-'0'], 10)
		}
	}
	return args
}

// runOurs runs a request and returns what each client receives.
func (v *conversation) runOurs(client int, args []string) [][]any {
	v.local.submit(v.ours[client], args)
	received := make([][]any, len(v.ours))
	for i, c := range v.ours {
		in := bufio.NewReader(bytes.NewReader(c.outbox))
		for {
			reply, err := readReply(in)
			if err != nil {
				break
			}
			received[i] = append(received[i], reply)
		}
		c.outbox = nil
	}
	return received
}

// receive reads a number of replies of a client of redis-server. It returns fewer if there are no more.
func (v *conversation) receive(t rapid.TB, client, n int) []any {
	var all []any
	w := v.theirs[client]
	for range n {
		if w.in.Buffered() == 0 {
			if err := w.conn.SetReadDeadline(time.Now().Add(3 * time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		reply, err := readReply(w.in)
		if err != nil {
			return append(all, err)
		}
		all = append(all, reply)
	}
	if n > 0 {
		if err := w.conn.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// same compares what a client has received.
func (*conversation) same(e example, theirs, ours []any) bool {
	if len(theirs) != len(ours) {
		return false
	}
	if strings.HasSuffix(e.name, "unsubscribe") || strings.HasSuffix(e.name, "publish") {
		return reflect.DeepEqual(sortMessages(theirs), sortMessages(ours))
	}
	for i := range theirs {
		if !reflect.DeepEqual(theirs[i], ours[i]) && (e.same == nil || !e.same(theirs[i], ours[i])) {
			return false
		}
	}
	return true
}

// sortMessages returns what a client has received as texts, with those in any order whose order is that of
// Redis's tables: messages of several patterns, and the names of ended subscriptions. What a client publishes to
// itself precedes the reply in Redis 7.0, and follows it here and in Redis 7.2.
func sortMessages(all []any) []string {
	var texts, names, messages []string
	for _, reply := range all {
		words := reflect.ValueOf(reply)
		if words.Kind() != reflect.Slice || words.Len() < 3 {
			texts = append(texts, fmt.Sprintf("%#v", reply))
			continue
		}
		kind, _ := words.Index(0).Interface().(string)
		switch {
		case strings.HasSuffix(kind, "unsubscribe"):
			texts = append(texts, fmt.Sprintf("%T %s %v", reply, kind, words.Index(2).Interface()))
			names = append(names, fmt.Sprint(words.Index(1).Interface()))
		case kind == "message", kind == "pmessage", kind == "smessage":
			messages = append(messages, fmt.Sprintf("%#v", reply))
		default:
			texts = append(texts, fmt.Sprintf("%#v", reply))
		}
	}
	slices.Sort(names)
	slices.Sort(messages)
	return slices.Concat(texts, names, messages)
}

// end checks that no client of redis-server has received more, and what the log makes.
func (v *conversation) end(t *rapid.T) {
	for i, c := range v.ours {
		if c.blocked != nil {
			v.reconnect(t, i)
			continue
		}
		v.theirs[i].send(t, [][]string{{"RESET"}})
		if reply := v.receive(t, i, 1)[0]; reply != simple("RESET") {
			t.Fatalf("redis-server: client %d receives %#v", i, reply)
		}
	}
	again := newStore(v.disk, Options{})
	if err := again.load(); err != nil {
		t.Fatal(err)
	}
	if want, got := valuesOf(v.local.store), valuesOf(again); !reflect.DeepEqual(want, got) {
		t.Fatalf("the log makes other keys:\nwant %q\ngot  %q", want, got)
	}
}

// hangUp closes the connections to redis-server after a difference.
func (v *conversation) hangUp() {
	for i, w := range v.theirs {
		if w != nil {
			_ = w.conn.Close()
			v.theirs[i] = nil
		}
	}
}

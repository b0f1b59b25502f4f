package redis

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/waittest"
)

// connectionExamples are commands of the connection whose replies say nothing about it.
var connectionExamples = []example{
	{name: "select", draw: words(oneOf("0", "0", "x", "-1", "100"))},
	{name: "echo", draw: words(someValue)},
	{name: "ping", draw: func(t *rapid.T) []string { return several(t, 0, 2, someValue) }},
	{name: "client", draw: words(oneOf("getredir", "trackinginfo", "x", "GETREDIR", "id", "pause", "getname")), same: func(a, b any) bool {
		if _, ok := a.(int64); ok {
			return sameType(a, b)
		}
		return fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b)
	}},
	{name: "client setname", draw: words(oneOf("", "a", "a b", "\n", "name"))},
	{name: "client no-evict", draw: words(oneOf("on", "OFF", "x"))},
	{name: "client caching", draw: words(oneOf("YES", "no", "x"))},
	{name: "client unblock", draw: func(t *rapid.T) []string {
		return append([]string{oneOf("99999", "x", "")(t)}, several(t, 0, 1, oneOf("timeout", "ERROR", "x"))...)
	}},
	{name: "client kill", draw: func(t *rapid.T) []string {
		return several(t, 0, 4, oneOf("id", "99999", "x", "0", "type", "pubsub", "replica", "addr", "127.0.0.1:1", "skipme", "maybe", "user", "nobody", "yes"))
	}},
	{name: "client kill", draw: func(t *rapid.T) []string {
		return rapid.SampledFrom([][]string{
			{"type", "normal"},
			{"type", "master"},
			{"type", "slave"},
			{"laddr", "127.0.0.1:1"},
			{"skipme", "no", "id", "99999"},
		}).Draw(t, "filter")
	}},
	{name: "client list", same: sameFailure, draw: func(t *rapid.T) []string {
		return several(t, 0, 3, oneOf("type", "normal", "pubsub", "master", "replica", "id", "99999", "x"))
	}},
	{name: "client info", same: sameType, draw: words()},
	{name: "asking", draw: words()},
	{name: "readonly", draw: words()},
	{name: "readwrite", draw: words()},
	{name: "cluster", draw: func(t *rapid.T) []string { // compared in TestClusterOfOneNode, too
		return strings.Fields(oneOf("info", "links", "myid", "nodes", "shards", "slots", "keyslot a", "countkeysinslot 1", "getkeysinslot 1 2",
			"replicas x", "slaves x", "count-failure-reports x", "nosuch", "keyslot", "slots x")(t))
	}},
	{name: "hello", same: sameFailure, draw: func(t *rapid.T) []string {
		return several(t, 0, 3, oneOf("1", "4", "x", "", "setname", "a b"))
	}},
}

// sameFailure reports whether two replies are the same error, or of the same form.
func sameFailure(a, b any) bool {
	if _, ok := a.(failure); ok {
		return a == b
	}
	return sameType(a, b)
}

func TestConnection(t *testing.T) { compareWithRedis(t, connectionExamples) }

// ask sends a request and returns the reply.
func (w *wire) ask(t *testing.T, request string) any {
	t.Helper()
	return w.pipeline(t, [][]string{strings.Fields(request)})[0]
}

func wantReply(t *testing.T, what string, got, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %#v, want %#v", what, got, want)
	}
}

func TestClientReply(t *testing.T) {
	c := dial(t, serve(t, open(t, Dir(t.TempDir()), Options{})))
	requests := "CLIENT REPLY OFF\r\nSET a 1\r\nNONSENSE\r\nCLIENT REPLY ON\r\nCLIENT REPLY SKIP\r\nSET a 2\r\nGET a\r\n"
	if _, err := c.conn.Write([]byte(requests)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []any{simple("OK"), "2"} {
		got, err := readReply(c.in)
		if err != nil {
			t.Fatal(err)
		}
		wantReply(t, "reply", got, want)
	}
}

func TestSubscriptionsAreToldAfterReplyOff(t *testing.T) {
	r := newRunner(t)
	c := r.client(1)
	r.store.execute(c, []string{"CLIENT", "REPLY", "OFF"})
	r.store.execute(c, []string{"SUBSCRIBE"})
	r.expect(c, "SUBSCRIBE a", []any{"subscribe", "a", int64(1)})
	r.expect(c, "UNSUBSCRIBE a", []any{"unsubscribe", "a", int64(0)})
}

func TestNothingIsRunAfterQuit(t *testing.T) {
	c := dial(t, serve(t, open(t, Dir(t.TempDir()), Options{})))
	if _, err := c.conn.Write([]byte("SET a 1\r\nQUIT\r\nSET a 2\r\nPING\r\n")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := readReply(c.in)
		if err != nil {
			t.Fatal(err)
		}
		wantReply(t, "reply", got, simple("OK"))
	}
	if reply, err := readReply(c.in); err == nil {
		t.Errorf("QUIT is followed by %#v", reply)
	}
}

func TestHello(t *testing.T) {
	addr := serve(t, open(t, Dir(t.TempDir()), Options{}))
	c := dial(t, addr)
	greeting := c.ask(t, "HELLO 3 SETNAME me").(map3)
	text := fmt.Sprint(greeting...)
	if want := "server redis version 7.0.15 proto 3"; !strings.HasPrefix(fmt.Sprintln(greeting...), want) {
		t.Errorf("HELLO: %s", text)
	}
	wantReply(t, "name", c.ask(t, "CLIENT GETNAME"), "me")
	wantReply(t, "RESET", c.ask(t, "RESET"), simple("RESET"))
	wantReply(t, "name after RESET", c.ask(t, "CLIENT GETNAME"), nil)
	if list, ok := c.ask(t, "HELLO").([]any); !ok || len(list) != 14 {
		t.Errorf("HELLO after RESET: %v", list)
	}
	wantReply(t, "QUIT", c.ask(t, "QUIT"), simple("OK"))
	if _, err := c.in.ReadByte(); err == nil {
		t.Error("the connection stays open after QUIT")
	}
}

func TestClientUnblock(t *testing.T) {
	addr := serve(t, open(t, Dir(t.TempDir()), Options{}))
	blocked, other := dial(t, addr), dial(t, addr)
	id := blocked.ask(t, "CLIENT ID").(int64)
	for reason, want := range map[string]any{
		"": nil, "TIMEOUT": nil, "ERROR": failure("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
	} {
		if _, err := blocked.conn.Write([]byte("BLPOP none 0\r\n")); err != nil {
			t.Fatal(err)
		}
		waittest.True(t, "the client to be unblocked", func() bool {
			return other.ask(t, fmt.Sprintf("CLIENT UNBLOCK %d %s", id, reason)) == int64(1)
		})
		got, err := readReply(blocked.in)
		if err != nil {
			t.Fatal(err)
		}
		wantReply(t, "BLPOP", got, want)
	}
}

func TestClientKill(t *testing.T) {
	addr := serve(t, open(t, Dir(t.TempDir()), Options{}))
	c := dial(t, addr)
	for _, filter := range []string{"%[2]s", "ADDR %[2]s SKIPME yes", "ID %[1]d", "TYPE pubsub"} {
		victim := dial(t, addr)
		id := victim.ask(t, "CLIENT ID").(int64)
		if filter == "TYPE pubsub" {
			victim.ask(t, "SUBSCRIBE c")
		}
		want := any(int64(1))
		if !strings.Contains(filter, " ") {
			want = simple("OK")
		}
		request := fmt.Sprintf("CLIENT KILL "+filter+"%[3]s", id, victim.conn.LocalAddr(), "")
		wantReply(t, request, c.ask(t, request), want)
		if _, err := victim.in.ReadByte(); err == nil {
			t.Errorf("%s: the connection stays open", request)
		}
	}
	waittest.True(t, "the others to be gone", func() bool {
		return strings.Count(fmt.Sprint(c.ask(t, "CLIENT LIST")), "laddr=") == 1
	})
	wantReply(t, "itself", c.ask(t, "CLIENT KILL USER default SKIPME no"), int64(1))
	if _, err := c.in.ReadByte(); err == nil {
		t.Error("the connection stays open")
	}
}

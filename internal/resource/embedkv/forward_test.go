package embedkv

import (
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/waittest"
)

// startTwo starts the engines of two nodes. The second one passes connections to stores of the first one on to it,
// over TCP.
func startTwo(t *testing.T, change func(*Engine)) (owner, other *fixture) {
	t.Helper()
	owner = start(t, change)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	stores := make(chan string, 1000)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			owner.ServeForwarded(c, <-stores)
		}
	}()
	other = start(t, func(e *Engine) {
		e.Node = "node_other"
		e.Nodes = dialer(func(path string) (net.Conn, error) {
			stores <- strings.TrimPrefix(path, "/kv/")
			return net.Dial("tcp", listener.Addr().String())
		})
	})
	return owner, other
}

// dialer connects to the other node.
type dialer func(path string) (net.Conn, error)

func (d dialer) Dial(_ context.Context, _, path, _ string) (net.Conn, error) { return d(path) }

// createThere creates a store of the first node, which both know.
func createThere(owner, other *fixture, org string) *resource.Provisioned {
	p := owner.createOf(org)
	other.put(p)
	return p
}

func TestPassedConnectionIsThatOfTheStore(t *testing.T) {
	owner, other := startTwo(t, nil)
	p := createThere(owner, other, "org_a")
	c := other.dial()
	equal(t, "before AUTH", c.ask("GET k\r\n"), "-NOAUTH Authentication required.")
	equal(t, "wrong password", c.ask("AUTH " + p.ID + " wrong\r\n")[:10], "-WRONGPASS")
	equal(t, "AUTH", c.ask("AUTH "+p.ID+" "+p.Password+"\r\n"), "+OK")
	equal(t, "SET", c.ask("SET k v\r\n"), "+OK")
	equal(t, "on the node itself", owner.login(p).ask("STRLEN k\r\n"), ":1")
	equal(t, "password alone", other.dial().ask("AUTH "+p.Password+"\r\n"), "+OK")
	pipelined := other.dial()
	equal(t, "pipelined", pipelined.ask("AUTH "+p.ID+" "+p.Password+"\r\nAPPEND k w\r\nSTRLEN k\r\n"), "+OK")
	equal(t, "first behind AUTH", pipelined.line(), ":2")
	equal(t, "second behind AUTH", pipelined.line(), ":2")
	hello := other.dial()
	equal(t, "HELLO 3", hello.ask("HELLO 3 AUTH "+p.ID+" "+p.Password+"\r\n"), "%7")

	keys, err := other.Eval(t.Context(), p, resource.Script{Text: "return redis.call('GET', KEYS[1])", Key: "k"})
	if err != nil || keys != "vw" {
		t.Errorf("Eval: %v (%v)", keys, err)
	}
}

// TestPassedConnectionIsToldOfChanges has clients of another node keep what they have read. They are told when it changes
// on the node itself, and closed when that node ends. A client of another organization is told nothing.
func TestPassedConnectionIsToldOfChanges(t *testing.T) {
	owner, other := startTwo(t, nil)
	p, q := createThere(owner, other, "org_a"), createThere(owner, other, "org_b")
	must(t, owner.client(p).Set(t.Context(), "k", "v", 0).Err())
	var readers []*raw
	for _, store := range []*resource.Provisioned{p, q} {
		for _, mode := range []string{"", " BCAST"} {
			c := other.login(store)
			c.speakRESP3()
			equal(t, "CLIENT TRACKING", c.ask("CLIENT TRACKING ON"+mode+"\r\n"), "+OK")
			c.ask("STRLEN k\r\n")
			readers = append(readers, c)
		}
	}
	must(t, owner.client(p).Set(t.Context(), "k", "w", 0).Err())
	for _, c := range readers[:2] {
		for _, want := range []string{">2", "$10", "invalidate", "*1", "$1", "k"} {
			equal(t, "message", c.line(), want)
		}
	}
	for _, c := range readers[2:] {
		equal(t, "PING of another organization", c.ask("PING\r\n"), "+PONG")
	}
	must(t, owner.Close(t.Context()))
	for _, c := range readers {
		c.closed("the end of the node")
	}
}

// TestPassedConnectionIsForOneStore has clients authenticate again, for stores that the connection was not made for.
func TestPassedConnectionIsForOneStore(t *testing.T) {
	owner, other := startTwo(t, nil)
	p, q := createThere(owner, other, "org_a"), createThere(owner, other, "org_a")
	local := other.create()
	owner.put(local)
	auth := func(p *resource.Provisioned) string { return "AUTH " + p.ID + " " + p.Password + "\r\n" }
	c := other.login(p)
	for what, p := range map[string]*resource.Provisioned{"another store": q, "a store of the other node": local} {
		if got := c.ask(auth(p)); !strings.HasPrefix(got, "-ERR this connection is for another store") {
			t.Errorf("%s: %s", what, got)
		}
	}
	equal(t, "after that", c.ask("PING\r\n"), "+PONG")
	equal(t, "RESET", c.ask("RESET\r\n"), "+RESET")
	if got := c.ask(auth(q)); !strings.HasPrefix(got, "-ERR this connection is for another store") {
		t.Errorf("after RESET: %s", got)
	}
	equal(t, "the same store", c.ask(auth(p)), "+OK")

	here := other.login(local)
	if got := here.ask(auth(p)); !strings.HasPrefix(got, "-ERR this connection is for another store") {
		t.Errorf("from a store of this node: %s", got)
	}
	equal(t, "it stays what it was", here.ask("SET k v\r\n"), "+OK")
}

// TestPassedConnectionIsNotPassedOnAgain has two nodes that both believe that the other one has the files.
func TestPassedConnectionIsNotPassedOnAgain(t *testing.T) {
	owner, other := startTwo(t, func(e *Engine) {
		e.Nodes = dialer(func(string) (net.Conn, error) {
			t.Error("the connection is passed on again")
			return nil, errs.Unavailablef(nil, "again")
		})
	})
	p := createThere(owner, other, "org_a")
	elsewhere := *p
	elsewhere.Node = "node_third"
	owner.put(&elsewhere)
	if got := other.dial().ask("AUTH " + p.ID + " " + p.Password + "\r\n"); !strings.Contains(got, "on another node") {
		t.Error(got)
	}
}

func TestRotationAndDeletionCutBothHalves(t *testing.T) {
	owner, other := startTwo(t, nil)
	p, q := createThere(owner, other, "org_a"), createThere(owner, other, "org_b")
	c, stays := other.login(p), other.login(q)
	rotated := *p
	rotated.Password = id.Secret(43)
	other.put(&rotated)
	must(t, other.Rotate(t.Context(), &rotated)) // its half
	c.closed("rotation here")
	equal(t, "old password", other.dial().ask("AUTH " + p.ID + " " + p.Password + "\r\n")[:10], "-WRONGPASS")
	// The other node does not know yet, and checks the password too.
	equal(t, "new password", other.dial().ask("AUTH " + p.ID + " " + rotated.Password + "\r\n")[:10], "-WRONGPASS")
	owner.put(&rotated)
	c = other.login(&rotated)
	again := rotated
	again.Password = id.Secret(43)
	owner.put(&again)
	must(t, owner.Rotate(t.Context(), &again))
	c.closed("rotation there")
	other.put(&again)
	c = other.login(&again)
	other.drop(&again)
	must(t, other.Delete(t.Context(), &again))
	c.closed("deletion here")
	equal(t, "another store", stays.ask("SET k v\r\n"), "+OK")
	waittest.True(t, "slots to be returned", func() bool {
		return owner.Connections.Usage().Common == 1 && other.Connections.Usage().Common == 1
	})
}

// TestPassedConnectionsHaveSlotsOnBothNodes opens connections until one of the nodes has no more for a store.
func TestPassedConnectionsHaveSlotsOnBothNodes(t *testing.T) {
	owner, other := startTwo(t, nil)
	p := createThere(owner, other, "org_a")
	for i := range 3 {
		equal(t, "PING", other.login(p).ask("PING\r\n"), "+PONG")
		for _, f := range []*fixture{owner, other} {
			if used := f.Connections.Usage(); used.Common != int64(i+1) {
				t.Errorf("%d connections: %+v", i+1, used)
			}
		}
	}
	for _, f := range []*fixture{owner, other} {
		for _, use := range f.Usage() {
			if use.Connections != 3 || use.In == 0 || use.Out == 0 {
				t.Errorf("use on %s: %+v", f.Node, use)
			}
		}
	}
}

func TestStoreOfDeadNodeIsRefused(t *testing.T) {
	_, other := startTwo(t, nil)
	other.Nodes = dialer(func(string) (net.Conn, error) { return nil, errs.Unavailablef(nil, "node node_x does not answer") })
	p := &resource.Provisioned{
		ID: id.New(id.KVStore), Type: resource.KV, OrgID: "org_a", Node: "local", State: resource.Active, Password: id.Secret(43),
	}
	other.put(p)
	c := other.dial()
	for range 2 * maxFailures { // which are none of the client
		equal(t, "AUTH", c.ask("AUTH "+p.ID+" "+p.Password+"\r\n"), "-ERR node node_x does not answer, try again")
	}
	equal(t, "it has not authenticated", c.ask("PING\r\n"), "-NOAUTH Authentication required.")
	if _, err := other.Eval(t.Context(), p, resource.Script{Text: "return 1", Key: "k"}); errs.KindOf(err) != errs.Unavailable {
		t.Errorf("Eval: %v", err)
	}
	if used := other.Connections.Usage(); used.Common != 0 {
		t.Errorf("slots are kept: %+v", used)
	}
}

// TestStalledClientDelaysNoOther has a client not read its replies while a second tenant goes on.
func TestStalledClientDelaysNoOther(t *testing.T) {
	owner, other := startTwo(t, nil)
	p, q := createThere(owner, other, "org_a"), createThere(owner, other, "org_b")
	must(t, owner.client(p).Set(t.Context(), "large", strings.Repeat("x", 1<<20), 0).Err())
	stalled := other.login(p)
	_, err := io.WriteString(stalled, strings.Repeat("GET large\r\n", 64))
	must(t, err)
	fast := other.client(q)
	for i := range 200 {
		must(t, fast.Set(t.Context(), "k"+strconv.Itoa(i), "v", 0).Err())
	}
}

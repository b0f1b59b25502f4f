package embedkv

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"steward/internal/budget"
	"steward/internal/waittest"
)

// dialFrom connects from a local address.
func (f *fixture) dialFrom(address string) *raw {
	f.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c, err := dialer.Dial("tcp", f.addr)
	must(f.t, err)
	f.t.Cleanup(func() { _ = c.Close() })
	return &raw{c, f.t, bufio.NewReader(c)}
}

// TestSilentConnectionsDoNotStopLogins has an address with more connections than there may be that have
// not signed in. Another one signs in.
func TestSilentConnectionsDoNotStopLogins(t *testing.T) {
	f := start(t, nil)
	p := f.create()
	for range 1005 {
		f.dialFrom("127.0.0.1")
	}
	for range 20 {
		c := f.dialFrom("127.0.0.2")
		equal(t, "AUTH", c.ask("AUTH "+p.ID+" "+p.Password+"\r\n"), "+OK")
		equal(t, "SET", c.ask("SET k v\r\n"), "+OK")
	}
}

// TestConnectionsAreSharedByOrganizations has one with as many connections as its stores may have.
func TestConnectionsAreSharedByOrganizations(t *testing.T) {
	f := start(t, func(e *Engine) { e.Connections = budget.NewPool(32, 2) })
	for range 3 {
		p := f.createOf("org_a")
		for answer := "+OK"; answer == "+OK"; {
			answer = f.dial().ask("AUTH " + p.ID + " " + p.Password + "\r\n")
		}
	}
	if u := f.Connections.Usage(); u.Common > u.Total/2 || u.Refused == 0 {
		t.Errorf("of one organization: %+v", u)
	}
	p := f.createOf("org_b")
	for range 6 {
		c := f.login(p)
		equal(t, "SET", c.ask("SET k v\r\n"), "+OK")
	}
}

// TestStalledRequestsHoldTheShareOfTheirOrganization has 100 connections of one that announce 8 MiB, send
// a part and stall. Another one sends and reads values of 8 MiB.
func TestStalledRequestsHoldTheShareOfTheirOrganization(t *testing.T) {
	f := start(t, nil)
	head := "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$8388608\r\n"
	silent := f.createOf("org_a")
	for range 100 {
		_, err := io.WriteString(f.login(silent), head+"x")
		must(t, err)
	}
	equal(t, "memory of what was announced", f.Memory.Usage().Common, 0)
	for range 4 {
		p := f.createOf("org_a")
		for range 25 {
			c := f.login(p)
			go func() { _, _ = io.WriteString(c, head+strings.Repeat("x", 1<<20)) }() // the server may close it
		}
	}
	waittest.Until(t, "the requests to arrive", func() (int64, bool) {
		n := f.Memory.Usage().Common
		return n, n > 40<<20
	})
	c := f.client(f.createOf("org_b"))
	value := strings.Repeat("v", 8<<20)
	for i := range 5 {
		must(t, c.Set(t.Context(), fmt.Sprint(i), value, 0).Err())
		equal(t, "GET", c.Get(t.Context(), fmt.Sprint(i)).Val() == value, true)
	}
	if u := f.Memory.Usage(); u.Common > u.Total/2 {
		t.Errorf("one organization has %d of %d bytes", u.Common, u.Total)
	}
}

// TestNamesHoldTheShareOfTheirOrganization has clients of one organization subscribe, watch and set prefixes until all are
// refused. Another organization subscribes and writes.
func TestNamesHoldTheShareOfTheirOrganization(t *testing.T) {
	f := start(t, smallKeyMemory)
	long := strings.Repeat("x", 100<<10)
	refused := "-ERR the clients of the store watch and subscribe to more than there is memory for"
	for _, command := range []string{"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "WATCH", "CLIENT TRACKING ON BCAST PREFIX"} {
		p := f.createOf("org_a")
		n := 0
		for answer := ""; answer != refused; n++ {
			if n > 1000 {
				t.Fatalf("%s: nothing is refused", command)
			}
			name := fmt.Sprint(n, long)
			if strings.HasPrefix(command, "CLIENT") {
				name = name[:4<<10]
			}
			c := f.login(p)
			c.speakRESP3()
			var request strings.Builder
			words := append(strings.Fields(command), name)
			fmt.Fprintf(&request, "*%d\r\n", len(words))
			for _, word := range words {
				fmt.Fprintf(&request, "$%d\r\n%s\r\n", len(word), word)
			}
			answer = c.ask(request.String())
		}
	}
	if u := f.KeyMemory.Usage(); u.Common+u.Reserve > u.Total/2 || u.Owners != 1 {
		t.Errorf("%+v", u)
	}
	c := f.login(f.createOf("org_b"))
	equal(t, "SET", c.ask("SET k v\r\n"), "+OK")
	equal(t, "SUBSCRIBE", c.ask("SUBSCRIBE news\r\n"), "*3")
}

// TestSlowSendersAreCutByTheirPace sends a byte at a time, which a deadline for each read would allow.
func TestSlowSendersAreCutByTheirPace(t *testing.T) {
	pace := budget.Pace{Grace: 500 * time.Millisecond, Rate: 1 << 20, Limit: time.Minute}
	f := start(t, func(e *Engine) { e.Limits = Limits{Pace: pace} })
	c := f.login(f.create())
	_, err := io.WriteString(c, "*2\r\n$3\r\nGET\r\n$1000000\r\n")
	must(t, err)
	waittest.True(t, "the connection to be closed", func() bool {
		_, err := io.WriteString(c, "x")
		return err != nil
	})
}

// TestResetNeedsASlot has a client that gives up its store while its address has used up its slots.
func TestResetNeedsASlot(t *testing.T) {
	f := start(t, func(e *Engine) { e.Unauthenticated = budget.NewPool(16, 2) })
	c := f.login(f.create())
	for range 6 {
		f.dial()
	}
	waittest.Until(t, "the connections to be accepted", func() (int, bool) { n := f.sessions.count(); return n, n == 7 })
	equal(t, "RESET", c.ask("RESET\r\n"), "+RESET")
	c.closed("RESET without a slot")
	d := f.dialFrom("127.0.0.2")
	equal(t, "RESET of another address", d.ask("RESET\r\n"), "+RESET")
	equal(t, "it stays open", d.ask("PING\r\n"), "-NOAUTH Authentication required.")
}

package embedkv

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"steward/internal/waittest"
)

// TestIdleConnectionsAreSmall has many connections that have sent and received large values, and are idle. What they
// take in memory includes the clients' side.
func TestIdleConnectionsAreSmall(t *testing.T) {
	const connections, most = 300, 24 << 10
	f := start(t, nil)
	p := f.create()
	before := inUse()
	value := strings.Repeat("v", 100<<10)
	set := fmt.Sprintf("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n", len(value), value)
	get := "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
	want := fmt.Sprintf("+OK\r\n+OK\r\n$%d\r\n%s\r\n", len(value), value)
	got := make([]byte, len(want))
	for range connections {
		c, err := net.Dial("tcp", f.addr)
		must(t, err)
		defer c.Close()
		_, err = io.WriteString(c, "AUTH "+p.ID+" "+p.Password+"\r\n"+set+get)
		must(t, err)
		_, err = io.ReadFull(c, got)
		must(t, err)
		equal(t, "replies", string(got) == want, true)
	}
	waittest.Until(t, "idle connections to be small", func() (int64, bool) {
		each := (inUse() - before) / connections
		return each, each < most
	})
	t.Logf("%d bytes for a connection", (inUse()-before)/connections)
	equal(t, "memory of requests and replies", f.Memory.Usage().Common, 0)
}

// inUse returns the number of bytes of objects and stacks.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

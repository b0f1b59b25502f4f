// Package porttest finds ports for the servers of tests. It imports no other package of Steward.
package porttest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// given has the ports that were returned. Their servers may not listen yet, or not all the time.
var given sync.Map

// Free returns a port of the loopback address that is free, and each port once. It is below those that Linux
// gives to listeners without a port and to connections, so that it stays free while its server is stopped.
func Free(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 10_000 + rand.IntN(20_000)
		if _, again := given.LoadOrStore(port, true); again {
			continue
		}
		if l, err := net.Listen("tcp", Address(port)); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// Address returns the loopback address with a port.
func Address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

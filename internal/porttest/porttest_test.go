package porttest

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// TestPortsAreReserved uses a port as tests do: nobody listens at first, then a server, which is stopped
// and started again. Others cannot reserve it.
func TestPortsAreReserved(t *testing.T) {
	port := Free(t)
	taken := func(when string) {
		t.Helper()
		if socket, err := reserve(port); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%s, another test reserves the port: %d, %v", when, socket, err)
		}
	}
	taken("before its server starts")
	if c, err := net.Dial("tcp", Address(port)); err == nil {
		t.Errorf("a connection to %s", c.RemoteAddr())
	}
	for range 2 {
		l, err := net.Listen("tcp", Address(port))
		if err != nil {
			t.Fatal(err)
		}
		taken("while its server listens")
		if l, err := net.Listen("tcp", Address(port)); err == nil {
			t.Errorf("two servers listen at %s", l.Addr())
		}
		c, err := net.Dial("tcp", Address(port))
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		_ = l.Close()
		taken("after its server stopped")
	}
}

func TestPortsAreReturnedWithTheTest(t *testing.T) {
	var port int
	t.Run("test", func(t *testing.T) { port = Free(t) })
	socket, err := reserve(port)
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Close(socket)
}

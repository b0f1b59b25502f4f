// Package porttest finds ports for the servers of tests.
package porttest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
)

// Free returns a port of the loopback address that is free, and stays so until the test ends: whether
// its server listens, has not started yet, or is stopped, no other test gets the port. It is below those
// that Linux gives to listeners without a port and to connections.
func Free(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 10_000 + rand.IntN(20_000)
		socket, err := reserve(port)
		if err == nil {
			t.Cleanup(func() { _ = syscall.Close(socket) })
			return port
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
	t.Fatal("no port is free")
	return 0
}

// reserve returns a socket that is bound to a port and does not listen. Its own bind fails if the port is
// in use at all. From then on it allows addresses to be reused, and so do servers, which Linux lets
// listen on the port as long as no other one does.
func reserve(port int) (socket int, err error) {
	socket, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	err = syscall.Bind(socket, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	}
	if err != nil {
		_ = syscall.Close(socket)
		return 0, err
	}
	return socket, nil
}

// Address returns the loopback address with a port.
func Address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

package db

import "syscall"

// tcpUserTimeout is Linux's TCP_USER_TIMEOUT, which package syscall does not have.
const tcpUserTimeout = 0x12

// setUserTimeout makes the kernel give up a TCP connection if the peer does not acknowledge sent
// data in time.
func setUserTimeout(network, _ string, conn syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(lostAfter.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}

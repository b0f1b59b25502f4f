package db

import "syscall"

// tcpUserTimeout is TCP_USER_TIMEOUT of Linux, which package syscall does not have.
const tcpUserTimeout = 0x12

// setUserTimeout has the kernel give up a TCP connection if what was sent is not confirmed in time.
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

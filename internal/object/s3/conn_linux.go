package s3

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unacknowledged returns how many written bytes the client has not yet acknowledged, or 0 if the kernel
// does not say.
func unacknowledged(c net.Conn) (bytes int) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { bytes, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	return bytes
}

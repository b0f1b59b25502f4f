package process

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inOwnNetwork is set in processes that OwnNetwork has started.
const inOwnNetwork = "STEWARD_TEST_OWN_NETWORK"

// OwnNetwork runs the test in a process with a network of its own, which has a loopback interface and
// nothing else: there, all ports are free, as on the machine of a new user. It returns true in that
// process, and false in the one that has started it and has waited for it.
func OwnNetwork(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inOwnNetwork) != "" {
		raiseLoopback(t)
		return true
	}
	binary, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.timeout=30m")
	cmd.Env = append(os.Environ(), inOwnNetwork+"=1", "STEWARD_TEST_BINARY="+binary)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("in a network of its own: %v\n%s", err, out)
	}
	return false
}

// raiseLoopback brings the loopback interface up, with 127.0.0.1 and ::1.
func raiseLoopback(t *testing.T) {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(socket) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
		t.Fatal(err)
	}
}

package listeners

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"steward/internal/app/config"
	"steward/internal/porttest"
)

// TestAPIOnLocalhostListensOnBothAddresses connects to both, also after the listener was opened
// again, and to none after it is closed.
func TestAPIOnLocalhostListensOnBothAddresses(t *testing.T) {
	requireIPv6(t)
	cfg := config.Config{Listen: porttest.Address(porttest.Free(t)), S3Listen: "127.0.0.1:0", BaseURL: "http://localhost:1"}
	l, err := Open(cfg, false, true)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := l.Addresses(cfg, "dev")
	v6 := strings.Replace(cfg.Listen, "127.0.0.1", "[::1]", 1)
	if a.Listen["api"] != cfg.Listen || a.Listen["api_ipv6"] != v6 || a.BaseURL != cfg.BaseURL {
		t.Errorf("the addresses are %+v", a)
	}
	wantGreetings(t, l.API, cfg.Listen, v6)
	l.Close()
	if _, err := l.API.Accept(); err == nil {
		t.Error("a closed listener accepts connections")
	}
	for _, address := range []string{cfg.Listen, v6} {
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			t.Errorf("%s accepts connections after Close", address)
		}
	}
	again, err := Reopen(a)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	wantGreetings(t, again, cfg.Listen, v6)
}

// wantGreetings greets clients that connect to each of the addresses.
func wantGreetings(t *testing.T, l net.Listener, addresses ...string) {
	t.Helper()
	for _, address := range addresses {
		client, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		served, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if served.LocalAddr().String() != address {
			t.Errorf("a connection to %s has the address %s", address, served.LocalAddr())
		}
		if _, err := io.WriteString(served, "hello"); err != nil {
			t.Fatal(err)
		}
		_ = served.Close()
		if got, err := io.ReadAll(client); err != nil || !bytes.Equal(got, []byte("hello")) {
			t.Errorf("%s: got %q, %v", address, got, err)
		}
		_ = client.Close()
	}
}

func TestAPIOnLocalhostNeedsBothPorts(t *testing.T) {
	requireIPv6(t)
	address := porttest.Address(porttest.Free(t))
	taken, err := net.Listen("tcp", strings.Replace(address, "127.0.0.1", "[::1]", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	cfg := config.Config{Listen: address, S3Listen: "127.0.0.1:0"}
	if _, err := Open(cfg, false, true); err == nil || !strings.Contains(err.Error(), "--listen") || !strings.Contains(err.Error(), "[::1]") {
		t.Errorf("a start beside another program on ::1 returned %v", err)
	}
	l, err := Open(cfg, false, false) // the first one has left no listener
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func requireIPv6(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no ::1")
	}
	_ = l.Close()
}

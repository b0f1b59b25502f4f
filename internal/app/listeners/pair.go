package listeners

import (
	"errors"
	"net"
	"sync"
	"syscall"

	"steward/internal/app/datadir"
)

// Reopen opens the API's listener again, at the addresses that it had.
func Reopen(a datadir.Addresses) (net.Listener, error) {
	l, err := net.Listen("tcp", a.Listen["api"])
	if err != nil || a.Listen["api_ipv6"] == "" {
		return l, err
	}
	both, err := alsoOnIPv6(l)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return both, nil
}

// alsoOnIPv6 returns a listener that also accepts connections on ::1, at the port of one on
// 127.0.0.1: a client that looks up localhost may try either first. It returns the same listener on
// machines without ::1.
func alsoOnIPv6(l net.Listener) (net.Listener, error) {
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, err
	}
	other, err := net.Listen("tcp", net.JoinHostPort("::1", port))
	if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	p := &pair{Listener: l, other: other, accepted: make(chan accepted), closed: make(chan struct{})}
	go p.run(l)
	go p.run(other)
	return p, nil
}

// pair accepts connections from two listeners. Its address is the first one's.
type pair struct {
	net.Listener
	other    net.Listener
	accepted chan accepted
	closed   chan struct{}
	once     sync.Once
}

// run accepts connections from one listener until the pair is closed. Accept's caller gets the
// errors, and decides how long to wait.
func (p *pair) run(l net.Listener) {
	for {
		c, err := l.Accept()
		select {
		case p.accepted <- accepted{c, err}:
		case <-p.closed:
			if c != nil {
				_ = c.Close()
			}
			return
		}
	}
}

// Accept returns the next connection to either listener.
func (p *pair) Accept() (net.Conn, error) {
	select {
	case a := <-p.accepted:
		return a.conn, a.err
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close closes both listeners.
func (p *pair) Close() error {
	p.once.Do(func() { close(p.closed) })
	return errors.Join(p.Listener.Close(), p.other.Close())
}

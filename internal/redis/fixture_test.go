package redis

import (
	"bufio"
	"net"
	"testing"
)

// serve serves a store on a loopback port and returns its address.
func serve(t testing.TB, s *Store) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	clients := &Clients{}
	go func() {
		for id := int64(1); ; id++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serveConn(s, conn, id, clients)
		}
	}()
	return listener.Addr().String()
}

func serveConn(s *Store, conn net.Conn, id int64, clients *Clients) {
	defer conn.Close()
	c := NewClient(id, conn.RemoteAddr().String())
	c.Attach(Access{User: "default", Open: func() (*Store, error) { return s, nil }, Clients: clients})
	defer c.Close()
	go func() {
		defer conn.Close()
		_ = c.Send(func(b []byte) error {
			_, err := conn.Write(b)
			return err
		})
	}()
	r := Reader{In: bufio.NewReaderSize(conn, 16<<10), Args: 1 << 20, Bytes: 512 << 20}
	for {
		args, err := r.Next()
		if err != nil {
			return
		}
		if c.Do(args) != nil {
			return
		}
	}
}

// open opens a store in a directory until the test ends.
func open(t testing.TB, dir FS, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

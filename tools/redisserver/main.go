// Command redisserver serves a store from internal/redis on a loopback port, without authentication. It
// adds nothing of its own, so a client reads exactly the store's replies. We run the Redis test suite
// against it (tools/redis-suite).
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"

	"steward/internal/redis"
)

func main() {
	address := flag.String("listen", "127.0.0.1:0", "address to listen on")
	dir := flag.String("dir", ".", "directory of the store")
	flag.Parse()
	if err := serve(*address, *dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve opens the store in a directory and serves it until the process ends.
func serve(address, dir string) error {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	store, err := redis.Open(context.Background(), redis.Dir(dir), redis.Options{Log: logger, Memory: 4 << 30})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	access := redis.Access{
		User: "default", URL: "redis://" + listener.Addr().String(), Clients: &redis.Clients{},
		Open: func() (*redis.Store, error) { return store, nil },
	}
	for id := int64(1); ; id++ {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go serveClient(conn, id, access)
	}
}

// serveClient passes a connection's requests to the store, and sends its replies.
func serveClient(conn net.Conn, id int64, access redis.Access) {
	client := redis.NewClient(id, conn.RemoteAddr().String())
	client.Local = conn.LocalAddr().String()
	client.Hangup = func() { _ = conn.Close() }
	client.Attach(access)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_ = client.Send(func(b []byte) error {
			_, err := conn.Write(b)
			return err
		})
		client.Kill()
	}()
	readRequests(conn, client)
	client.Finish()
	client.Close()
	<-sent
	_ = conn.Close()
}

// readRequests passes requests on until the connection ends or a request is malformed.
func readRequests(conn net.Conn, client *redis.Client) {
	in := redis.Reader{In: bufio.NewReaderSize(conn, 64<<10), Args: 1 << 20, Bytes: 1 << 30}
	for {
		args, err := in.Next()
		if malformed, ok := errors.AsType[redis.ProtocolError](err); ok {
			client.Finish()
			client.Reply([]byte("-" + malformed.Error() + "\r\n"))
		}
		if err != nil || client.Do(args) != nil {
			return
		}
	}
}

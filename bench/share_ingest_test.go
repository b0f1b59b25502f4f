//go:build bench

package bench

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"steward/internal/db"
)

// TestIngestBesideStalledSenders has 4,000 connections that announce events of a megabyte and send one
// byte of each. Another organization sends events.
func TestIngestBesideStalledSenders(t *testing.T) {
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in, f := install(t, database), &feed{}
		hostile := in.hook()
		other := in.organization("victim").hook()
		begin := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\nx", hostile.path, 1<<20)
		attack := func() func() {
			var stalled connections
			for range 4000 {
				conn, err := net.Dial("tcp", in.server.address)
				in.Must(err)
				stalled.add(conn)
				_, _ = conn.Write([]byte(begin)) // the server may refuse it
			}
			return stalled.close
		}
		victim := func() result { return load(t, in.server, 2, span, f.events(other.path, 2)) }
		victim() // warms up
		beside(t, database+": events beside 4,000 requests that stall", victim, attack)
	})
}

// TestIngestBesideLargeEvents has 12 connections of an organization send events of 900 KB. Another organization sends
// small ones.
func TestIngestBesideLargeEvents(t *testing.T) {
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in, f := install(t, database), &feed{}
		large := always(request("POST", in.hook().path, "", bytes.Repeat([]byte("x"), 900_000)))
		other := in.organization("victim").hook()
		attack := func() func() {
			var senders sync.WaitGroup
			stopped := make(chan struct{})
			senders.Go(func() {
				for {
					select {
					case <-stopped:
						return
					default:
						load(t, in.server, 12, time.Second, large)
					}
				}
			})
			return func() { close(stopped); senders.Wait() }
		}
		victim := func() result { return load(t, in.server, 2, span, f.events(other.path, 2)) }
		victim() // warms up
		beside(t, database+": events beside 12 connections with 900 KB each", victim, attack)
	})
}

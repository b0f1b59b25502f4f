package load

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/e2e/sink"
	"steward/internal/waittest"
)

// TestStalledTailIsClosed has a client that takes nothing. The kernel buffers some megabytes of a
// connection; what comes then has to be taken within 30 s.
func TestStalledTailIsClosed(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite", "--metrics-listen", "127.0.0.1:0")
	h := s.NewHook("orders")
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	s.Must(err)
	defer conn.Close()
	s.Must(conn.(*net.TCPConn).SetReadBuffer(4096))
	_, err = fmt.Fprintf(conn, "GET /webhook/tail HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", s.Key)
	s.Must(err)
	tails := func() string {
		res, err := installation.Client.Get("http://" + s.Addresses().Listen["metrics"] + "/metrics")
		s.Must(err)
		got, err := installation.ReadResponse(t, res)
		s.Must(err)
		_, rest, _ := strings.Cut(string(got.Body), "\nsteward_webhook_open_tails ")
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	waittest.True(t, "the tail", func() bool { return tails() == "1" })
	for range 200 {
		s.Ingest(h, strings.Repeat("x", 60_000))
	}
	waittest.True(t, "the end of the tail", func() bool { return tails() == "0" })
}

// TestTailMissesNothing sends 20,000 events while processes are killed and tails reconnect, on
// PostgreSQL to another of two replicas each time. Every tail must show each receipt once, in the
// same order.
func TestTailMissesNothing(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			s := installation.Start(t, name)
			servers := []*installation.Steward{s}
			if name == "postgres" {
				servers = append(servers, s.Replica())
			}
			var mu sync.Mutex // held while a process is started again
			any := func() *installation.Steward {
				mu.Lock()
				defer mu.Unlock()
				copied := *servers[rand.N(len(servers))].Steward
				return &installation.Steward{Steward: &copied, T: t, Key: s.Key}
			}
			k, h := sink.New(t), s.NewHook("orders")
			s.NewDestination(h, k.URL+"/hook", "concurrency", 50)
			tails := []*installation.Tail{
				installation.Follow(t, "/webhook/tail", "", 0, any), installation.Follow(t, "/webhook/tail", "", 300, any),
				installation.Follow(t, "/webhook/tail/"+h.ID, "", 1500, any), installation.Follow(t, "/webhook/tail/"+h.ID, "", 0, any),
			}
			acked := installation.NewAcknowledged()
			victim := servers[len(servers)-1]
			for round := 1; round <= 4; round++ {
				stop := make(chan struct{})
				var clients []*sync.WaitGroup
				for i, to := range servers {
					clients = append(clients, to.SendLoad(h, fmt.Sprintf("/hook-%d-%d", round, i), 16, acked, stop))
				}
				waittest.Until(t, "events", func() (int, bool) { n := acked.Size(); return n, n >= round*5000 })
				if round < 4 {
					victim.Kill()
				}
				close(stop)
				for _, c := range clients {
					c.Wait()
				}
				if round < 4 {
					mu.Lock()
					victim.Start()
					mu.Unlock()
				}
			}
			s.CheckTails(h, tails, acked)
		})
	}
}

package e2e

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"steward/e2e/installation"
)

// TestStalledSendersStopNobodyElse has one organization open 4,000 requests that announce a megabyte
// and send a part of it, to webhooks and to the API, while another one sends events.
func TestStalledSendersStopNobodyElse(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		hostile := s.NewHook("orders")
		victim := s.SecondOrganization()
		events := victim.NewHook("orders")
		stallSenders(s, 2000, "POST "+hostile.Path, 1)
		stallSenders(s, 1000, "POST /webhook/create", 1)
		stallSenders(s, 1000, "POST "+hostile.Path, 64<<10)
		large := strings.Repeat("x", mebi)
		for range 50 {
			victim.Ingest(events, "short")
			victim.Ingest(events, large)
			victim.Call("POST", "/webhook/create", object{"name": "more"}).Want(201)
		}
		checkMemory(s)
	})
}

// TestJunkBodiesTakeBoundedMemory has one organization send bodies of many tiny values, with and
// without an Idempotency-Key, while another one is served.
func TestJunkBodiesTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		victim := s.SecondOrganization()
		events := victim.NewHook("orders")
		junk := `{"metadata":{"x":[` + strings.Repeat(`[[{}]],`, 1<<20) + `0]}}`
		var senders sync.WaitGroup
		defer senders.Wait()
		for i := range 8 {
			senders.Go(func() {
				for n := range 2 {
					headers := []string{"Idempotency-Key", fmt.Sprint(i, n)}[:2*(i%2)]
					r, err := s.Try("POST", "/session", junk, headers...)
					if err != nil || r.Status != 422 && r.Status != 503 {
						t.Errorf("junk: %v, %v", r, err)
					}
				}
			})
		}
		for range 50 {
			victim.Ingest(events, "short")
			victim.Call("PUT", "/thread/t", object{"project_id": "p", "user_data": `"` + strings.Repeat("x", 300<<10) + `"`}).Want(200)
		}
		senders.Wait()
		checkMemory(s)
	})
}

// stallSenders opens requests that announce a body of a megabyte and send a part of it. They stay open
// until the process closes them, or the test ends.
func stallSenders(s *installation.Steward, n int, request string, size int) {
	s.T.Helper()
	head := fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		request, s.Key, mebi)
	body := strings.Repeat("x", size)
	var opened sync.WaitGroup
	for range 8 {
		opened.Go(func() {
			for range n / 8 {
				conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
				if err != nil {
					s.T.Error(err)
					return
				}
				s.T.Cleanup(func() { _ = conn.Close() })
				_, _ = io.WriteString(conn, head+body) // fails if the request is refused
			}
		})
	}
	opened.Wait()
}

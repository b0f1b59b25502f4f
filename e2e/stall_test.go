package e2e

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// TestStalledSendersStopNobodyElse has one organization open 4,000 requests that announce a megabyte
// and send a part of it, to webhooks and to the API, while another one sends events.
func TestStalledSendersStopNobodyElse(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		hostile := s.hook("orders")
		victim := s.secondOrganization()
		events := victim.hook("orders")
		s.stallSenders(2000, "POST "+hostile.path, 1)
		s.stallSenders(1000, "POST /webhook/create", 1)
		s.stallSenders(1000, "POST "+hostile.path, 64<<10)
		large := strings.Repeat("x", mebi)
		for range 50 {
			victim.ingest(events, "short")
			victim.ingest(events, large)
			victim.call("POST", "/webhook/create", object{"name": "more"}).want(201)
		}
		s.checkMemory()
	})
}

// TestJunkBodiesTakeBoundedMemory has one organization send bodies of many tiny values, with and
// without an Idempotency-Key, while another one is served.
func TestJunkBodiesTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		victim := s.secondOrganization()
		events := victim.hook("orders")
		junk := `{"metadata":{"x":[` + strings.Repeat(`[[{}]],`, 1<<20) + `0]}}`
		var senders sync.WaitGroup
		defer senders.Wait()
		for i := range 8 {
			senders.Go(func() {
				for n := range 2 {
					headers := []string{"Idempotency-Key", fmt.Sprint(i, n)}[:2*(i%2)]
					r, err := s.try("POST", "/session", junk, headers...)
					if err != nil || r.status != 422 && r.status != 503 {
						t.Errorf("junk: %v, %v", r, err)
					}
				}
			})
		}
		for range 50 {
			victim.ingest(events, "short")
			victim.call("PUT", "/thread/t", object{"project_id": "p", "user_data": `"` + strings.Repeat("x", 300<<10) + `"`}).want(200)
		}
		senders.Wait()
		s.checkMemory()
	})
}

// stallSenders opens requests that announce a body of a megabyte and send a part of it. They stay open
// until the process closes them, or the test ends.
func (s *steward) stallSenders(n int, request string, size int) {
	s.t.Helper()
	head := fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		request, s.key, mebi)
	body := strings.Repeat("x", size)
	var opened sync.WaitGroup
	for range 8 {
		opened.Go(func() {
			for range n / 8 {
				conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
				if err != nil {
					s.t.Error(err)
					return
				}
				s.t.Cleanup(func() { _ = conn.Close() })
				_, _ = io.WriteString(conn, head+body) // fails if the request is refused
			}
		})
	}
	opened.Wait()
}

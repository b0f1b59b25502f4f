package load

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

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
		large := strings.Repeat("x", 1<<20)
		for range 50 {
			victim.Ingest(events, "short")
			victim.Ingest(events, large)
			victim.Call("POST", "/webhook/create", object{"name": "more"}).Want(201)
		}
		checkMemory(s)
	})
}

// TestJunkBodiesTakeBoundedMemory has one organization send bodies of many tiny values, with and
// without an Idempotency-Key, while another one sends events and stores a thread.
func TestJunkBodiesTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		victim := s.SecondOrganization()
		events := victim.NewHook("orders")
		bodies := junkBodies(s.OrgID)
		var senders sync.WaitGroup
		defer senders.Wait()
		for i := range 8 {
			senders.Go(func() {
				for n, junk := range bodies {
					headers := []string{"Idempotency-Key", fmt.Sprint(i, n)}[:2*(i%2)]
					r, err := s.Try("POST", "/session", junk.text, headers...)
					if err != nil || r.Status != junk.status && r.Status != 503 {
						t.Errorf("body %d: %v, %v", n, r, err)
					}
				}
			})
		}
		for range 25 {
			victim.Ingest(events, "short")
			victim.Call("PUT", "/thread/t", object{"project_id": "p", "user_data": `"` + strings.Repeat("x", 300<<10) + `"`}).Want(200)
		}
		senders.Wait()
		checkMemory(s)
	})
}

type junkBody struct {
	text   string
	status int
}

// junkBodies returns sessions of an organization with metadata that takes many times its size in memory.
func junkBodies(orgID string) []junkBody {
	start := func(metadata string) string {
		return `{"id":"s","orgId":"` + orgID + `","projectId":"p","routeId":"r","environment":"e","devmode":true,"url":"u",` +
			`"method":"m","trigger":"t","metadata":{"x":[` + metadata + `0]}}`
	}
	return []junkBody{
		{start(nestedObjects(8 << 20)), 413}, // too many values
		{start(nestedObjects(9 << 17)), 422}, // almost as many as are decoded
		{start(nestedObjects(1 << 20)), 201},
		{start(strings.Repeat(`[[{}]],`, 95_000)), 201},
	}
}

// stallSenders opens requests that announce a body of a megabyte and send a part of it. They stay open
// until the process closes them, or the test ends.
func stallSenders(s *installation.Steward, n int, request string, size int) {
	s.T.Helper()
	head := fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		request, s.Key, 1<<20)
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

// TestJunkFramesTakeBoundedMemory has sockets of one organization send frames of many tiny values, while
// another one saves threads.
func TestJunkFramesTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		victim := s.SecondOrganization().OpenSocket()
		save := func(data string) string { return `{"id":"i","action":"save","data":{"thread_id":"t",` + data + `}}` }
		frames := []string{
			save(`"metadata":{"x":[` + nestedObjects(1<<20) + `0]}`),                  // stored
			save(`"metadata":{"x":[` + nestedObjects(9<<17) + `0]}`),                  // refused
			save(`"operations":[` + strings.Repeat("0,", 390_000) + `0]`),             // of another form
			save(`"operations":[` + strings.Repeat("0,", 1<<20) + `0],"metadata":{}`), // too many values
		}
		var senders sync.WaitGroup
		defer senders.Wait()
		for range 8 {
			a := s.OpenSocket()
			senders.Go(func() {
				for n, text := range frames {
					_ = a.Conn.Write(t.Context(), websocket.MessageText, []byte(text)) // fails if the socket is closed
					r, err := a.Read()
					status := websocket.CloseStatus(err)
					switch {
					case status == websocket.StatusTryAgainLater:
						return
					case strings.Contains(r.Error, "too many large requests"), strings.Contains(r.Error, "timed out"):
					case r.Success != (n == 0) || (status == websocket.StatusMessageTooBig) != (n == len(frames)-1):
						t.Errorf("frame %d: %+v, %v", n, r, err)
					}
				}
			})
		}
		for range 25 {
			victim.Do("save", object{"thread_id": "t", "user_data": `"` + strings.Repeat("x", 300<<10) + `"`})
		}
		senders.Wait()
		checkMemory(s)
	})
}

// nestedObjects returns elements of an array, in a number of bytes or a few less. Each byte takes 60 when
// they are decoded.
func nestedObjects(size int) string {
	nested := strings.Repeat(`{"a":`, 100) + "0" + strings.Repeat("}", 100) + ","
	return strings.Repeat(nested, size/len(nested)-1)
}

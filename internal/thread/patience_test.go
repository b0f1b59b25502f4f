package thread

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"steward/internal/auth"
	"steward/internal/web/pipetest"
)

// patiently runs a test with one socket, in a time of its own that passes when nobody has anything to do.
func patiently(t *testing.T, test func(t *testing.T, s *Socket, conn *websocket.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		caller := &auth.Caller{OrgID: org, UserID: "u", Role: auth.Owner}
		s := &Socket{Authenticate: func(context.Context, string) (*auth.Caller, error) { return caller, nil }}
		listener := make(pipetest.Listener)
		server := &http.Server{Handler: s}
		go server.Serve(listener)
		transport := &http.Transport{DialContext: listener.Dial}
		conn, _, err := websocket.Dial(t.Context(), "http://steward/", &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
		must(t, err)
		test(t, s, conn)
		conn.CloseNow()
		must(t, s.Close(context.Background()))
		close(listener)
		must(t, server.Close())
		transport.CloseIdleConnections()
	})
}

// lives tells whether the socket is still there.
func (s *Socket) lives() bool {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live) > 0
}

func admit(t *testing.T, conn *websocket.Conn) {
	must(t, conn.Write(t.Context(), websocket.MessageText, []byte(`{"authorization":"key"}`)))
	_, text, err := conn.Read(t.Context())
	must(t, err)
	if string(text) != `{"success":true}` {
		t.Fatalf("the key was answered by %s", text)
	}
}

// TestSocketWithoutKey: who sends no key is closed after firstWithin, and told so.
func TestSocketWithoutKey(t *testing.T) {
	patiently(t, func(t *testing.T, _ *Socket, conn *websocket.Conn) {
		began := time.Now()
		_, _, err := conn.Read(t.Context())
		if took := time.Since(began); websocket.CloseStatus(err) != websocket.StatusPolicyViolation || took != 10*time.Second {
			t.Errorf("closed by %v after %v", err, took)
		}
	})
}

// TestSocketWithHalfAFrame: a frame that does not come to its end within frameWithin ends its socket.
func TestSocketWithHalfAFrame(t *testing.T) {
	patiently(t, func(t *testing.T, s *Socket, conn *websocket.Conn) {
		admit(t, conn)
		w, err := conn.Writer(t.Context(), websocket.MessageText)
		must(t, err)
		_, err = w.Write([]byte(`{"id":"` + strings.Repeat("x", 8<<10))) // of which a first part is sent
		must(t, err)
		time.Sleep(29 * time.Second)
		if !s.lives() {
			t.Error("cut off before its time")
		}
		time.Sleep(2 * time.Second)
		if s.lives() {
			t.Error("the socket waits for the rest of a frame for ever")
		}
	})
}

// TestSocketIsPinged: a peer that answers pings may be silent for ever; one that does not is cut off.
func TestSocketIsPinged(t *testing.T) {
	for _, listens := range []bool{true, false} {
		patiently(t, func(t *testing.T, s *Socket, conn *websocket.Conn) {
			admit(t, conn)
			if listens {
				conn.CloseRead(t.Context())
			}
			time.Sleep(time.Hour)
			if s.lives() != listens {
				t.Errorf("a peer that answers pings (%v) is still there: %v", listens, !listens)
			}
		})
	}
}

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

// withFakeTime runs a test with one socket in a synctest bubble.
func withFakeTime(t *testing.T, test func(t *testing.T, s *Socket, conn *websocket.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		caller := &auth.Caller{OrgID: org, UserID: "u", Role: auth.Owner}
		authenticate := func(context.Context, string) (*auth.Caller, error) { return caller, nil }
		s := NewSocket(nil, authenticate, 1000, 64<<20)
		listener := make(pipetest.Listener)
		server := &http.Server{Handler: s}
		go func() { _ = server.Serve(listener) }() // it ends when the server is closed
		transport := &http.Transport{DialContext: listener.Dial}
		options := &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}}
		conn, _, err := websocket.Dial(t.Context(), "http://steward/", options)
		must(t, err)
		test(t, s, conn)
		_ = conn.CloseNow() // the server may have closed it
		must(t, s.Close(context.Background()))
		close(listener)
		must(t, server.Close())
		transport.CloseIdleConnections()
	})
}

// isOpen reports whether the socket is open, once all goroutines of the bubble wait.
func isOpen(s *Socket) bool {
	synctest.Wait()
	return s.OpenSockets() > 0
}

func sendKey(t *testing.T, conn *websocket.Conn) {
	must(t, conn.Write(t.Context(), websocket.MessageText, []byte(`{"authorization":"key"}`)))
	_, text, err := conn.Read(t.Context())
	must(t, err)
	if string(text) != `{"success":true}` {
		t.Fatalf("the key was answered by %s", text)
	}
}

func TestSocketIsClosedIfNoKeyIsSent(t *testing.T) {
	withFakeTime(t, func(t *testing.T, _ *Socket, conn *websocket.Conn) {
		began := time.Now()
		_, _, err := conn.Read(t.Context())
		if took := time.Since(began); websocket.CloseStatus(err) != websocket.StatusPolicyViolation || took != 10*time.Second {
			t.Errorf("closed by %v after %v", err, took)
		}
	})
}

func TestSocketIsClosedIfAFrameDoesNotEnd(t *testing.T) {
	withFakeTime(t, func(t *testing.T, s *Socket, conn *websocket.Conn) {
		sendKey(t, conn)
		w, err := conn.Writer(t.Context(), websocket.MessageText)
		must(t, err)
		_, err = w.Write([]byte(`{"id":"` + strings.Repeat("x", 8<<10))) // more than the buffer of the client, so that a part is sent
		must(t, err)
		time.Sleep(9 * time.Second)
		if !isOpen(s) {
			t.Error("closed before the timeout")
		}
		time.Sleep(10 * time.Second)
		if isOpen(s) {
			t.Error("the socket still waits for the rest of the frame")
		}
		if u := s.Frames.Usage(); u.Owners != 0 {
			t.Errorf("memory is in use: %+v", u)
		}
	})
}

// TestSocketIsClosedIfThereIsNoRoom has an organization that uses up its share. A frame waits for it, and
// is then refused with the status that tells runtimes to come again.
func TestSocketIsClosedIfThereIsNoRoom(t *testing.T) {
	withFakeTime(t, func(t *testing.T, s *Socket, conn *websocket.Conn) {
		sendKey(t, conn)
		fill(s.Frames, org)
		must(t, conn.Write(t.Context(), websocket.MessageText, []byte(`{"id":"1","action":"restore"}`)))
		began := time.Now()
		_, _, err := conn.Read(t.Context())
		if took := time.Since(began); websocket.CloseStatus(err) != websocket.StatusTryAgainLater || took != roomTimeout {
			t.Errorf("closed by %v after %v", err, took)
		}
	})
}

func TestSocketIsClosedIfThePeerDoesNotAnswerPings(t *testing.T) {
	for _, listens := range []bool{true, false} {
		withFakeTime(t, func(t *testing.T, s *Socket, conn *websocket.Conn) {
			sendKey(t, conn)
			if listens {
				conn.CloseRead(t.Context())
			}
			time.Sleep(time.Hour)
			if isOpen(s) != listens {
				t.Errorf("the peer answers pings: %v; the socket is open: %v", listens, !listens)
			}
		})
	}
}

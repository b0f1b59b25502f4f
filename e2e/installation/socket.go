package installation

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/coder/websocket"
)

// Socket is the runtime's end of a WebSocket. It reads ahead by one frame, so that it answers pings.
type Socket struct {
	s      *Steward
	Conn   *websocket.Conn
	Frames chan Frame
}

// Frame is one read's result.
type Frame struct {
	Text []byte
	Err  error
}

// Reply is the server's reply to an action.
type Reply struct {
	ID      string  `json:"id"`
	Success bool    `json:"success"`
	Data    *string `json:"data"`
	Error   string  `json:"error"`
}

// OpenSocket opens a socket and authenticates with the installation's key.
func (s *Steward) OpenSocket() *Socket {
	s.T.Helper()
	a := s.ConnectSocket("/thread/ws")
	s.Must(a.Conn.Write(s.T.Context(), websocket.MessageText, fmt.Appendf(nil, `{"authorization":%q}`, s.Key)))
	if r, err := a.Read(); err != nil || !r.Success {
		s.T.Fatalf("the key was refused: %+v, %v", r, err)
	}
	return a
}

// ConnectSocket opens a socket, which closes when the test ends.
func (s *Steward) ConnectSocket(path string) *Socket {
	s.T.Helper()
	conn, _, err := websocket.Dial(s.T.Context(), s.URL+path, nil)
	s.Must(err)
	s.T.Cleanup(func() { conn.CloseNow() })
	conn.SetReadLimit(8 << 20)
	a := &Socket{s: s, Conn: conn, Frames: make(chan Frame)}
	go a.readFrames(s.T.Context())
	return a
}

func (a *Socket) readFrames(ctx context.Context) {
	for {
		_, text, err := a.Conn.Read(ctx) // after an error, returns it again
		select {
		case a.Frames <- Frame{text, err}:
		case <-ctx.Done():
			return
		}
	}
}

// Read reads the next reply.
func (a *Socket) Read() (r Reply, err error) {
	select {
	case f := <-a.Frames:
		if f.Err != nil {
			return r, f.Err
		}
		err = json.Unmarshal(f.Text, &r)
		return r, err
	case <-time.After(RequestTimeout):
		return r, fmt.Errorf("no frame within %v", RequestTimeout)
	}
}

// Try sends an action and waits for its reply.
func (a *Socket) Try(action string, data map[string]any) (Reply, error) {
	text, err := json.Marshal(map[string]any{"id": "1", "action": action, "data": data})
	if err == nil {
		err = a.Conn.Write(a.s.T.Context(), websocket.MessageText, text)
	}
	if err != nil {
		return Reply{}, err
	}
	return a.Read()
}

// Do sends an action, which must succeed, and returns its reply's data.
func (a *Socket) Do(action string, data map[string]any) *string {
	a.s.T.Helper()
	r, err := a.Try(action, data)
	if err != nil || !r.Success {
		a.s.T.Fatalf("%s: %+v, %v", action, r, err)
	}
	return r.Data
}

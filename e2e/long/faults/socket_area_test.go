package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/coder/websocket"
)

// sockets saves threads in turn over a WebSocket, as runtimes do.
func (u *tenant) sockets() *area {
	name := func(n int) string { return fmt.Sprintf("socket-%d", n%savedThreads) }
	s := &socket{u: u}
	u.t.Cleanup(s.close)
	return &area{
		name: "sockets",
		write: func(ctx context.Context, n int) error {
			data := object{"thread_id": name(n), "project_id": "prj", "metadata": object{"n": n}, "user_data": "{}"}
			return s.save(ctx, object{"id": "1", "action": "save", "data": data})
		},
		missing: func(ctx context.Context, acked []int) ([]int, error) {
			return u.missingThreads(ctx, acked, func(n int) string { return u.cluster.api + "/thread/" + name(n) })
		},
	}
}

// socket is a connection of a runtime, which is opened when it is needed.
type socket struct {
	u    *tenant
	conn *websocket.Conn
}

// save sends an action. If the server has closed the connection, it opens another one and sends it again.
func (s *socket) save(ctx context.Context, action object) error {
	if s.conn != nil {
		err := s.send(ctx, action)
		if err == nil {
			return nil
		}
		s.close()
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	return s.send(ctx, action)
}

func (s *socket) open(ctx context.Context) (err error) {
	s.conn, _, err = websocket.Dial(ctx, s.u.cluster.api+"/thread/ws", nil)
	if err != nil {
		s.conn = nil
		return err
	}
	return s.send(ctx, object{"authorization": s.u.key})
}

// send sends a frame and waits for the reply.
func (s *socket) send(ctx context.Context, frame object) error {
	text, err := json.Marshal(frame)
	if err != nil {
		return err
	}
	if err := s.conn.Write(ctx, websocket.MessageText, text); err != nil {
		return err
	}
	_, text, err = s.conn.Read(ctx)
	if err != nil {
		return err
	}
	var reply struct {
		Success bool
		Error   string
	}
	if err := json.Unmarshal(text, &reply); err != nil || reply.Success {
		return err
	}
	return errors.New(reply.Error)
}

func (s *socket) close() {
	if s.conn != nil {
		_ = s.conn.CloseNow() // the server may have closed it
		s.conn = nil
	}
}

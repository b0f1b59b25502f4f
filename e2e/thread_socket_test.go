package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"steward/e2e/installation"
)

// socket is the runtime's end of a WebSocket. It reads ahead by one frame, so that pings are answered.
type socket struct {
	s      *installation.Steward
	conn   *websocket.Conn
	frames chan frame
}

// frame is the result of one read.
type frame struct {
	text []byte
	err  error
}

type reply struct {
	ID      string  `json:"id"`
	Success bool    `json:"success"`
	Data    *string `json:"data"`
	Error   string  `json:"error"`
}

// openSocket opens a socket and authenticates with the installation's key.
func openSocket(s *installation.Steward) *socket {
	s.T.Helper()
	a := connectSocket(s, "/thread/ws")
	s.Must(a.conn.Write(s.T.Context(), websocket.MessageText, fmt.Appendf(nil, `{"authorization":%q}`, s.Key)))
	if r, err := a.read(); err != nil || !r.Success {
		s.T.Fatalf("the key was refused: %+v, %v", r, err)
	}
	return a
}

func connectSocket(s *installation.Steward, path string) *socket {
	s.T.Helper()
	conn, _, err := websocket.Dial(s.T.Context(), s.URL+path, nil)
	s.Must(err)
	s.T.Cleanup(func() { conn.CloseNow() })
	conn.SetReadLimit(8 << 20)
	a := &socket{s: s, conn: conn, frames: make(chan frame)}
	go a.readFrames(s.T.Context())
	return a
}

func (a *socket) readFrames(ctx context.Context) {
	for {
		_, text, err := a.conn.Read(ctx) // after an error, returns it again
		select {
		case a.frames <- frame{text, err}:
		case <-ctx.Done():
			return
		}
	}
}

func (a *socket) read() (r reply, err error) {
	select {
	case f := <-a.frames:
		if f.err != nil {
			return r, f.err
		}
		err = json.Unmarshal(f.text, &r)
		return r, err
	case <-time.After(installation.RequestTimeout):
		return r, fmt.Errorf("no frame within %v", installation.RequestTimeout)
	}
}

// try sends an action and waits for its reply.
func (a *socket) try(action string, data object) (reply, error) {
	text, err := json.Marshal(object{"id": "1", "action": action, "data": data})
	if err == nil {
		err = a.conn.Write(a.s.T.Context(), websocket.MessageText, text)
	}
	if err != nil {
		return reply{}, err
	}
	return a.read()
}

func (a *socket) do(action string, data object) *string {
	a.s.T.Helper()
	r, err := a.try(action, data)
	if err != nil || !r.Success {
		a.s.T.Fatalf("%s: %+v, %v", action, r, err)
	}
	return r.Data
}

func TestSocketSavesAndRestores(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		a := openSocket(s)
		a.do("save", object{"thread_id": "t", "user_data": `{"a":1}`, "metadata": object{"k": "v"}})
		got := s.Call("GET", "/thread/t", nil).Want(200)
		if got.Text("user_data") != `{"a":1}` || got.Text("metadata.k") != "v" || !strings.HasPrefix(got.Text("project_id"), "prj_") {
			t.Errorf("saved %s", got.Body)
		}
		sdk := connectSocket(s, "/sdk/thread/ws")
		s.Must(sdk.conn.Write(t.Context(), websocket.MessageText, []byte(`{"authorization":"`+s.KeyOf("").Key+`"}`)))
		if r, err := sdk.read(); err != nil || !r.Success {
			t.Fatalf("on the SDK face: %+v, %v", r, err)
		}
		if data := sdk.do("restore", object{"thread_id": "t"}); data == nil || *data != `{"a":1}` {
			t.Errorf("restored %v", data)
		}
		one := s.KeyOf("p1")
		openSocket(one).do("save", object{"thread_id": "u", "user_data": `{}`})
		if data := openSocket(s.KeyOf("p2")).do("restore", object{"thread_id": "u"}); data != nil {
			t.Errorf("another project restored %s", *data)
		}
		s.Call("GET", "/thread/ws", nil).Want(400)

		key := s.Call("POST", "/cli/apikey", object{"name": "short-lived"}).Want(201)
		short := openSocket(s.As(key.Text("value")))
		short.do("restore", object{"thread_id": "t"})
		s.Call("DELETE", "/cli/apikey/"+key.Text("id"), nil).Want(204)
		if r, err := short.try("restore", object{"thread_id": "t"}); err != nil || r.Success {
			t.Errorf("with a deleted key: %+v, %v", r, err)
		}

		s.Stop()
		if _, err := a.read(); websocket.CloseStatus(err) != websocket.StatusGoingAway {
			t.Errorf("at shutdown: %v", err)
		}
		s.Start()
		if data := openSocket(s).do("restore", object{"thread_id": "t"}); data == nil || *data != `{"a":1}` {
			t.Errorf("after a restart: %v", data)
		}
	})
}

// TestConcurrentMergesAreAllKept pushes to one thread over 32 sockets at once, on PostgreSQL to two
// replicas.
func TestConcurrentMergesAreAllKept(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		replicas := []*installation.Steward{s}
		if s.Database != "" {
			replicas = append(replicas, s.Replica())
		}
		checkPushes(t, replicas)
	})
}

func checkPushes(t *testing.T, replicas []*installation.Steward) {
	var all sync.WaitGroup
	for i := range 32 {
		a := openSocket(replicas[i%len(replicas)])
		all.Go(func() {
			for j := range 5 {
				push := []object{{"op": "push", "key": "l", "value": fmt.Sprint(i, j)}}
				if r, err := a.try("merge", object{"thread_id": "t", "operations": push}); err != nil || !r.Success {
					t.Errorf("push %d of socket %d: %+v, %v", j, i, r, err)
				}
			}
		})
	}
	all.Wait()
	var got struct{ State struct{ L []string } }
	one := replicas[0]
	one.Must(json.Unmarshal([]byte(*openSocket(one).do("restore", object{"thread_id": "t"})), &got))
	seen := map[string]bool{}
	for _, push := range got.State.L {
		seen[push] = true
	}
	if len(got.State.L) != 160 || len(seen) != 160 {
		t.Errorf("%d pushes, %d different ones, want 160", len(got.State.L), len(seen))
	}
}

// TestIdleSocketsTakeLittleMemory opens 5,000 sockets of two organizations.
func TestIdleSocketsTakeLittleMemory(t *testing.T) {
	t.Parallel()
	const sockets, limit = 5000, 40 << 10
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if files.Max < 3*sockets {
		t.Fatalf("RLIMIT_NOFILE allows %d files; this test needs %d", files.Max, 3*sockets)
	}
	files.Cur = files.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	installation.Each(t, func(t *testing.T, s *installation.Steward) { checkSocketMemory(t, s, sockets, limit) })
}

func checkSocketMemory(t *testing.T, s *installation.Steward, n, limit int) {
	openSocket(s).do("save", object{"thread_id": "warm", "user_data": `{}`})
	both := []*installation.Steward{s, s.SecondOrganization()}
	before := s.RSS()
	sockets := make([]*socket, n)
	var clients sync.WaitGroup
	for c := range 20 {
		clients.Go(func() {
			for i := c; i < n; i += 20 {
				sockets[i] = openSocket(both[i%2])
			}
		})
	}
	clients.Wait()
	perSocket := (s.RSS() - before) / n
	t.Logf("%d bytes for each socket", perSocket)
	if perSocket > limit {
		t.Errorf("an idle socket takes %d bytes, at most %d are allowed", perSocket, limit)
	}
	for i := 0; i < n; i += 500 {
		sockets[i].do("save", object{"thread_id": "warm", "user_data": `{}`})
	}
	s.Stop()
}

// TestInvalidFrames checks that what is not JSON closes its socket, that an invalid request gets an
// error, and that other sockets are not affected.
func TestInvalidFrames(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		other := openSocket(s)
		for text, want := range map[string]websocket.StatusCode{
			`{"id":`:                   websocket.StatusInvalidFramePayloadData,
			"\"\xff\"":                 websocket.StatusInvalidFramePayloadData,
			strings.Repeat("x", 5<<20): websocket.StatusMessageTooBig,
		} {
			a := openSocket(s)
			_ = a.conn.Write(t.Context(), websocket.MessageText, []byte(text)) // the server may close before it is sent
			if _, err := a.read(); websocket.CloseStatus(err) != want {
				t.Errorf("%.20q: %v, want status %d", text, err, want)
			}
		}
		a := openSocket(s)
		for _, text := range []string{
			`[]`,
			`{"id":"1","action":"sing","data":{"thread_id":"t"}}`,
			`{"id":"1","action":"save","data":{"thread_id":"a b"}}`,
			`{"id":"1","action":"save","data":{"thread_id":"t","user_data":"{"}}`,
			`{"id":"1","action":"save","data":{"thread_id":"t","metadata":[]}}`,
			`{"id":"1","action":"merge","data":{"thread_id":"t","operations":[{"op":"pop"}]}}`,
			`{"authorization":"x"}`,
			`{"id":"1","action":"save","data":{"thread_id":"t","user_data":"\"` + strings.Repeat("x", 1<<20) + `\""}}`,
		} {
			s.Must(a.conn.Write(t.Context(), websocket.MessageText, []byte(text)))
			if r, err := a.read(); err != nil || r.Success || r.Error == "" {
				t.Errorf("%.80s: %+v, %v", text, r, err)
			}
		}
		a.do("save", object{"thread_id": "t", "user_data": `"` + strings.Repeat("x", 1<<20-2) + `"`})
		other.do("save", object{"thread_id": "u", "user_data": `{}`})
	})
}

// TestSocketThatDoesNotReadBlocksOnlyItself requests large replies and reads none of them.
func TestSocketThatDoesNotReadBlocksOnlyItself(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		quick, slow := openSocket(s), openSocket(s)
		quick.do("save", object{"thread_id": "t", "user_data": `"` + strings.Repeat("x", 1<<20-2) + `"`})
		ctx, cancel := context.WithCancel(t.Context())
		sent := make(chan int, 1)
		go func() {
			n := 0
			pad := strings.Repeat("x", 32<<10)
			restore := []byte(`{"id":"1","action":"restore","data":{"thread_id":"t"},"pad":"` + pad + `"}`)
			for n < 5000 && slow.conn.Write(ctx, websocket.MessageText, restore) == nil {
				n++
			}
			sent <- n
		}()
		for range 200 {
			quick.do("save", object{"thread_id": "u", "user_data": `{}`})
		}
		cancel()
		if n := <-sent; n == 5000 {
			t.Error("5000 frames were read from a peer that reads none of the replies")
		}
	})
}

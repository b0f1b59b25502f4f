package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"steward/e2e/installation"
)

func TestSocketSavesAndRestores(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		a := s.OpenSocket()
		a.Do("save", object{"thread_id": "t", "user_data": `{"a":1}`, "metadata": object{"k": "v"}})
		got := s.Call("GET", "/thread/t", nil).Want(200)
		if got.Text("user_data") != `{"a":1}` || got.Text("metadata.k") != "v" || !strings.HasPrefix(got.Text("project_id"), "prj_") {
			t.Errorf("saved %s", got.Body)
		}
		sdk := s.ConnectSocket("/sdk/thread/ws")
		s.Must(sdk.Conn.Write(t.Context(), websocket.MessageText, []byte(`{"authorization":"`+s.KeyOf("").Key+`"}`)))
		if r, err := sdk.Read(); err != nil || !r.Success {
			t.Fatalf("on the SDK face: %+v, %v", r, err)
		}
		if data := sdk.Do("restore", object{"thread_id": "t"}); data == nil || *data != `{"a":1}` {
			t.Errorf("restored %v", data)
		}
		one := s.KeyOf("p1")
		one.OpenSocket().Do("save", object{"thread_id": "u", "user_data": `{}`})
		if data := s.KeyOf("p2").OpenSocket().Do("restore", object{"thread_id": "u"}); data != nil {
			t.Errorf("another project restored %s", *data)
		}
		s.Call("GET", "/thread/ws", nil).Want(400)

		key := s.Call("POST", "/cli/apikey", object{"name": "short-lived"}).Want(201)
		short := s.As(key.Text("value")).OpenSocket()
		short.Do("restore", object{"thread_id": "t"})
		s.Call("DELETE", "/cli/apikey/"+key.Text("id"), nil).Want(204)
		if r, err := short.Try("restore", object{"thread_id": "t"}); err != nil || r.Success {
			t.Errorf("with a deleted key: %+v, %v", r, err)
		}

		s.Stop()
		if _, err := a.Read(); websocket.CloseStatus(err) != websocket.StatusGoingAway {
			t.Errorf("at shutdown: %v", err)
		}
		s.Start()
		if data := s.OpenSocket().Do("restore", object{"thread_id": "t"}); data == nil || *data != `{"a":1}` {
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
		a := replicas[i%len(replicas)].OpenSocket()
		all.Go(func() {
			for j := range 5 {
				push := []object{{"op": "push", "key": "l", "value": fmt.Sprint(i, j)}}
				if r, err := a.Try("merge", object{"thread_id": "t", "operations": push}); err != nil || !r.Success {
					t.Errorf("push %d of socket %d: %+v, %v", j, i, r, err)
				}
			}
		})
	}
	all.Wait()
	var got struct{ State struct{ L []string } }
	one := replicas[0]
	one.Must(json.Unmarshal([]byte(*one.OpenSocket().Do("restore", object{"thread_id": "t"})), &got))
	seen := map[string]bool{}
	for _, push := range got.State.L {
		seen[push] = true
	}
	if len(got.State.L) != 160 || len(seen) != 160 {
		t.Errorf("%d pushes, %d different ones, want 160", len(got.State.L), len(seen))
	}
}

// TestInvalidFrames checks that what is not JSON closes its socket, that an invalid request gets an
// error, and that other sockets are not affected.
func TestInvalidFrames(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	other := s.OpenSocket()
	for text, want := range map[string]websocket.StatusCode{
		`{"id":`:                   websocket.StatusInvalidFramePayloadData,
		"\"\xff\"":                 websocket.StatusInvalidFramePayloadData,
		strings.Repeat("x", 5<<20): websocket.StatusMessageTooBig,
	} {
		a := s.OpenSocket()
		_ = a.Conn.Write(t.Context(), websocket.MessageText, []byte(text)) // the server may close before it is sent
		if _, err := a.Read(); websocket.CloseStatus(err) != want {
			t.Errorf("%.20q: %v, want status %d", text, err, want)
		}
	}
	a := s.OpenSocket()
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
		s.Must(a.Conn.Write(t.Context(), websocket.MessageText, []byte(text)))
		if r, err := a.Read(); err != nil || r.Success || r.Error == "" {
			t.Errorf("%.80s: %+v, %v", text, r, err)
		}
	}
	a.Do("save", object{"thread_id": "t", "user_data": `"` + strings.Repeat("x", 1<<20-2) + `"`})
	other.Do("save", object{"thread_id": "u", "user_data": `{}`})
}

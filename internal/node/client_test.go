package node

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/stamp"
	"steward/internal/waittest"
)

func TestCallReturnsValuesAndErrors(t *testing.T) {
	p := newPair(t, nil)
	type numbers struct{ All []any }
	p.server.Handler = p.answer(numbers{[]any{int64(9007199254740993), 1.5}}, nil)
	var got numbers
	must(t, p.client.Call(t.Context(), "node_b", "/x", nil, &got))
	if text, err := json.Marshal(got); err != nil || string(text) != `{"All":[9007199254740993,1.5]}` {
		t.Errorf("got %s (%v)", text, err)
	}
	p.server.Handler = p.answer(nil, errs.InvalidField("query.cursor", "expected another"))
	err := p.client.Call(t.Context(), "node_b", "/x", nil, &got)
	var invalid *errs.Error
	if !errors.As(err, &invalid) || invalid.Kind != errs.Invalid || len(invalid.Faults) != 1 {
		t.Errorf("an invalid request: %v", err)
	}
	p.server.Handler = p.answer(nil, errors.New("secret"))
	if err := p.client.Call(t.Context(), "node_b", "/x", nil, &got); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("an internal error: %v", err)
	}
	wantKind(t, p.client.Call(t.Context(), "node_x", "/x", nil, &got), errs.NotFound)
}

// TestForwardPassesOnWhatComes reads the beginning of a response before its end is written.
func TestForwardPassesOnWhatComes(t *testing.T) {
	more := make(chan struct{})
	p := newPair(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer user" || r.Header.Get(tokenHeader) != "" {
			t.Errorf("headers: %v", r.Header)
		}
		w.Header().Set("Trailer", "Rows")
		_, _ = io.WriteString(w, "first\n")
		_ = http.NewResponseController(w).Flush()
		<-more
		_, _ = io.WriteString(w, "second\n")
		w.Header().Set("Rows", "2")
	})
	public := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		must(t, p.client.Forward(w, r, nil, "node_b"))
	}))
	defer public.Close()
	r, err := http.NewRequest("POST", public.URL+"/db/a%2Fb", nil)
	must(t, err)
	r.Header.Set("Authorization", "Bearer user")
	r.Header.Set(tokenHeader, "forged")
	res, err := http.DefaultClient.Do(r)
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	in := bufio.NewReader(res.Body)
	line, err := in.ReadString('\n')
	if err != nil || line != "first\n" {
		t.Errorf("%q (%v)", line, err)
	}
	close(more)
	rest, err := io.ReadAll(in)
	if err != nil || string(rest) != "second\n" || res.Trailer.Get("Rows") != "2" {
		t.Errorf("%q, trailer %v (%v)", rest, res.Trailer, err)
	}
}

// TestFrozenNodeIsGivenUp has a node not answer. What waits for it ends when it is not believed to live any more.
func TestFrozenNodeIsGivenUp(t *testing.T) {
	waits := make(chan struct{})
	release := make(chan struct{})
	p := newPair(t, func(http.ResponseWriter, *http.Request) {
		close(waits)
		<-release
	})
	defer close(release)
	result := make(chan error, 1)
	go func() { result <- p.client.Call(context.Background(), "node_b", "/x", nil, nil) }()
	<-waits
	p.clock.move(aliveFor)
	p.client.directory.refresh(t.Context())
	wantKind(t, waittest.Receive(t, "the request to end", result), errs.Unavailable)
	wantKind(t, p.client.Call(t.Context(), "node_b", "/x", nil, nil), errs.Unavailable)
}

func TestDialCarriesBothDirections(t *testing.T) {
	p := newPair(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := Upgrade(w, r)
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, c.RemoteAddr().String()+"\n")
		_, _ = io.Copy(c, c)
	})
	c, err := p.client.Dial(t.Context(), "node_b", "/kv/x", "192.0.2.7:1234")
	must(t, err)
	defer func() { _ = c.Close() }()
	_, err = io.WriteString(c, "hello")
	must(t, err)
	must(t, c.(*link).CloseWrite())
	got, err := io.ReadAll(c)
	if err != nil || string(got) != "192.0.2.7:1234\nhello" {
		t.Errorf("%q (%v)", got, err)
	}

	c, err = p.client.Dial(t.Context(), "node_b", "/kv/x", "")
	must(t, err)
	p.clock.move(aliveFor) // the node freezes
	p.client.directory.refresh(t.Context())
	if _, err := io.Copy(io.Discard, c); err == nil {
		t.Error("the connection to a frozen node ends as if it were closed by it")
	}
	_, err = p.client.Dial(t.Context(), "node_b", "/kv/x", "")
	wantKind(t, err, errs.Unavailable)
}

// TestEndlessAnswerIsNotRead has something else than a replica listen at the address of a node.
func TestEndlessAnswerIsNotRead(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = listener.Close() }()
	sent := make(chan int64, 1)
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		n, _ := io.Copy(c, io.MultiReader(strings.NewReader("HTTP/1.1 101 Switching Protocols\r\nX: "), endless{}))
		_ = c.Close()
		sent <- n
	}()
	d, c := dbtest.Open(t, db.SQLite), newClock()
	there := newDirectory(d, c, "node_b", "rep_b")
	there.Self.Address = listener.Addr().String()
	must(t, there.write(t.Context()))
	client := NewClient(newDirectory(d, c, "node_a", "rep_a"), newRing(t, 'k'))
	_, err = client.Dial(t.Context(), "node_b", "/x", "")
	wantKind(t, err, errs.Unavailable)
	if n := waittest.Receive(t, "the connection to be closed", sent); n > 32<<20 { // most of it is in buffers of the kernel
		t.Errorf("%d bytes were sent", n)
	}
}

// endless is a reader that never ends.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

// TestTokenForAnEarlierProcessIsNotAnError passes a request on to a process that was restarted meanwhile.
func TestTokenForAnEarlierProcessIsNotAnError(t *testing.T) {
	p := newPair(t, func(http.ResponseWriter, *http.Request) {})
	p.client.directory.refresh(t.Context())
	p.client.directory.nodes["node_b"].Process = "rep_before"
	wantKind(t, p.client.Call(t.Context(), "node_b", "/x", nil, nil), errs.Unavailable)
	w := httptest.NewRecorder()
	wantKind(t, p.client.Forward(w, httptest.NewRequest("POST", "/x", nil), nil, "node_b"), errs.Unavailable)
	_, err := p.client.Dial(t.Context(), "node_b", "/x", "")
	wantKind(t, err, errs.Unavailable)
	if p.served.Load() != 0 {
		t.Error("the request was served")
	}
	if seen := p.client.directory.nodes["node_b"].SeenAt; seen != stamp.Of(p.clock.now()) {
		t.Errorf("seen at %v", seen)
	}
}

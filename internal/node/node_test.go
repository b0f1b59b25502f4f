package node

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/seal"
	"steward/internal/stamp"
	"steward/internal/waittest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// clock is a clock that tests move.
type clock struct{ micros atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.micros.Store(time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC).UnixMicro())
	return c
}

func (c *clock) now() time.Time        { return time.UnixMicro(c.micros.Load()) }
func (c *clock) move(by time.Duration) { c.micros.Add(by.Microseconds()) }

// newRing returns a ring whose keys repeat a byte.
func newRing(t testing.TB, keys ...byte) *seal.Ring {
	t.Helper()
	var all [][]byte
	for _, key := range keys {
		all = append(all, bytes.Repeat([]byte{key}, seal.KeySize))
	}
	ring, err := seal.NewRing(all...)
	must(t, err)
	return ring
}

func newDirectory(d *db.DB, c *clock, id, process string) *Directory {
	return &Directory{
		DB: d, Now: c.now, Log: slog.New(slog.DiscardHandler), Self: Node{ID: id, Process: process, Address: id + ":1"},
	}
}

// announce writes the heartbeat of the process of a node, as one of this version.
func announce(t testing.TB, d *Directory) {
	t.Helper()
	_, err := d.DB.Exec(t.Context(), `INSERT INTO processes (id, seen_at, schema) VALUES ($1, 0, $2)`, d.Self.Process, schemaOfBodies)
	must(t, err)
}

func wantKind(t *testing.T, err error, want errs.Kind) {
	t.Helper()
	if errs.KindOf(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestNodesAreFoundWhileTheyLive(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c, ctx := newClock(), t.Context()
		a, b := newDirectory(d, c, "node_a", "rep_a"), newDirectory(d, c, "node_b", "rep_b")
		_, _, err := a.find(ctx, "node_b")
		wantKind(t, err, errs.NotFound)
		must(t, b.write(ctx))
		a.refresh(ctx)
		found, life, err := a.find(ctx, "node_b")
		if err != nil || found.Address != "node_b:1" || found.Process != "rep_b" || life.Err() != nil {
			t.Errorf("%+v, %v, %v", found, life, err)
		}

		c.move(aliveFor) // it is frozen, or was killed
		_, _, err = a.find(ctx, "node_b")
		wantKind(t, err, errs.Unavailable)
		if !strings.Contains(err.Error(), "node_b") {
			t.Errorf("the error does not name the node: %v", err)
		}
		a.refresh(ctx)
		<-life.Done()

		again := newDirectory(d, c, "node_b", "rep_c")
		must(t, again.write(ctx))
		a.refresh(ctx)
		found, life, err = a.find(ctx, "node_b")
		if err != nil || found.Process != "rep_c" || life.Err() != nil {
			t.Errorf("after a restart: %+v, %v", found, err)
		}
		must(t, b.clear(ctx)) // the process before, which ends late
		a.refresh(ctx)
		if life.Err() != nil {
			t.Error("a process that ends has ended the life of the next one")
		}
		must(t, again.clear(ctx))
		a.refresh(ctx)
		<-life.Done()
		_, _, err = a.find(ctx, "node_b")
		wantKind(t, err, errs.Unavailable)

		c.move(forgetAfter + time.Second)
		must(t, a.write(ctx))
		a.refresh(ctx)
		_, _, err = a.find(ctx, "node_b")
		wantKind(t, err, errs.NotFound)
	})
}

// TestDifferentClocksAreLogged has replicas whose clocks are a minute behind and ahead of that of node_a.
func TestDifferentClocksAreLogged(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var logged bytes.Buffer
		c, behind, ahead := newClock(), newClock(), newClock()
		behind.move(-time.Minute)
		ahead.move(time.Minute)
		a := newDirectory(d, c, "node_a", "rep_a")
		a.Log = slog.New(slog.NewTextHandler(&logged, nil))
		others := []*Directory{newDirectory(d, behind, "node_b", "rep_b"), newDirectory(d, ahead, "node_c", "rep_c")}
		dead := newDirectory(d, behind, "node_d", "rep_d")
		must(t, dead.write(t.Context()))
		for range 3 {
			for _, other := range append(others, a) {
				must(t, other.write(t.Context()))
			}
			a.refresh(t.Context())
			for _, clock := range []*clock{c, behind, ahead} {
				clock.move(beatEvery)
			}
		}
		for node, want := range map[string]int{"node_a": 0, "node_b": 1, "node_c": 1, "node_d": 0} {
			if n := strings.Count(logged.String(), node); n != want {
				t.Errorf("%d lines about %s, want %d:\n%s", n, node, want, logged.String())
			}
		}
	})
}

// TestCopiedDataDirectoryIsLogged has two processes serve one node. A process that follows another one is none of
// them.
func TestCopiedDataDirectoryIsLogged(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var logged bytes.Buffer
		c := newClock()
		before, first, second := newDirectory(d, c, "node_a", "rep_0"), newDirectory(d, c, "node_a", "rep_1"), newDirectory(d, c, "node_a", "rep_2")
		for _, directory := range []*Directory{before, first, second} {
			directory.Log = slog.New(slog.NewTextHandler(&logged, nil))
		}
		before.beat(t.Context())
		first.beat(t.Context())
		first.beat(t.Context())
		if logged.Len() > 0 {
			t.Errorf("after a restart: %s", logged.String())
		}
		for range 3 {
			second.beat(t.Context())
			first.beat(t.Context())
		}
		if n := strings.Count(logged.String(), "serves the same node"); n != 2 {
			t.Errorf("%d lines, want one of each process:\n%s", n, logged.String())
		}
	})
}

func TestNodeWithoutListenerIsNamed(t *testing.T) {
	d, c := dbtest.Open(t, db.SQLite), newClock()
	a, b := newDirectory(d, c, "node_a", "rep_a"), newDirectory(d, c, "node_b", "rep_b")
	b.Self.Address = ""
	must(t, b.write(t.Context()))
	_, _, err := a.find(t.Context(), "node_b")
	wantKind(t, err, errs.Unavailable)
	if !strings.Contains(err.Error(), "--internal-listen") {
		t.Error(err)
	}
}

func TestReplicasLearnOfEachOther(t *testing.T) {
	d := dbtest.Open(t, db.Postgres)
	watch, stopWatch := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() { d.RunWatch(watch); close(watched) }()
	defer func() { stopWatch(); <-watched }()
	ctx, stop := context.WithCancel(t.Context())
	a := &Directory{DB: d, Now: time.Now, Log: slog.New(slog.DiscardHandler), Self: Node{ID: "node_a", Process: "rep_a"}}
	b := &Directory{DB: d, Now: time.Now, Log: a.Log, Self: Node{ID: "node_b", Process: "rep_b", Address: "b:1"}}
	ended := make(chan struct{}, 2)
	for _, directory := range []*Directory{a, b} {
		go func() { directory.Run(ctx); ended <- struct{}{} }()
	}
	waittest.True(t, "a to find b", func() bool {
		_, _, err := a.find(t.Context(), "node_b")
		return err == nil
	})
	others, err := a.Others(t.Context())
	if err != nil || len(others) != 1 || others[0] != "node_b" {
		t.Errorf("the others are %v (%v)", others, err)
	}
	stop()
	<-ended
	<-ended
	states, err := a.States(t.Context())
	if err != nil || len(states) != 2 || states[0].Alive || states[1].Alive {
		t.Errorf("after the stop: %+v (%v)", states, err)
	}
}

// pair is a client of node_a and a server that is node_b.
type pair struct {
	t      *testing.T
	clock  *clock
	client *Client
	server *Server
	addr   string
	served atomic.Int64 // requests that reached the handler
}

func newPair(t *testing.T, handler http.HandlerFunc) *pair {
	t.Helper()
	return newPairOn(t, dbtest.Open(t, db.SQLite), handler)
}

func newPairOn(t *testing.T, d *db.DB, handler http.HandlerFunc) *pair {
	t.Helper()
	c := newClock()
	p := &pair{t: t, clock: c}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p.addr = listener.Addr().String()
	there := newDirectory(d, c, "node_b", "rep_b")
	there.Self.Address = p.addr
	must(t, there.write(t.Context()))
	announce(t, there)
	p.server = &Server{Directory: there, Ring: newRing(t, 'k'), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.served.Add(1)
		handler(w, r)
	})}
	p.server.Open()
	ended := make(chan error, 1)
	go func() { ended <- p.server.Serve(listener) }()
	here := newDirectory(d, c, "node_a", "rep_a")
	must(t, here.write(t.Context()))
	announce(t, here)
	p.client = NewClient(here, newRing(t, 'k'))
	t.Cleanup(func() {
		p.client.Close()
		must(t, p.server.Close(context.Background()))
		must(t, <-ended)
	})
	return p
}

// answer answers Call with a value.
func (p *pair) answer(value any, err error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { p.server.Answer(w, r, value, err) }
}

// to is the target of a request for /x.
var to = target{node: "node_b", process: "rep_b", method: "POST", path: "/x"}

// body is the body of a request for /x.
const body = "{}"

// send sends a request for /x with a token, and returns the status.
func (p *pair) send(token string) int {
	p.t.Helper()
	return p.sendTo("/x", body, token)
}

// sendTo sends a request with a token, and returns the status.
func (p *pair) sendTo(path, body, token string) int {
	p.t.Helper()
	r, err := http.NewRequest("POST", "http://"+p.addr+path, strings.NewReader(body))
	must(p.t, err)
	if token != "" {
		r.Header.Set(tokenHeader, token)
	}
	res, err := http.DefaultClient.Do(r)
	must(p.t, err)
	must(p.t, res.Body.Close())
	return res.StatusCode
}

func TestOnlyTokensForThisRequestAreAccepted(t *testing.T) {
	p := newPair(t, func(http.ResponseWriter, *http.Request) {})
	ring := newRing(t, 'k')
	other := func(change func(*target)) target {
		changed := to
		change(&changed)
		return changed
	}
	now := p.clock.now()
	valid := sign(ring, to, []byte(body), now)
	cut := strings.LastIndex(valid, ".")
	for what, token := range map[string]string{
		"none":             "",
		"rubbish":          "a.b.c",
		"without a MAC":    valid[:cut+1],
		"another MAC":      valid[:cut+1] + strings.Repeat("A", len(valid)-cut-1),
		"a later expiry":   "9" + valid,
		"another key":      sign(newRing(t, 'x'), to, []byte(body), now),
		"another client":   sign(ring, other(func(to *target) { to.client = "192.0.2.1:1" }), []byte(body), now),
		"another resource": sign(ring, other(func(to *target) { to.path = "/y" }), []byte(body), now),
		"another method":   sign(ring, other(func(to *target) { to.method = "GET" }), []byte(body), now),
		"another node":     sign(ring, other(func(to *target) { to.node = "node_c" }), []byte(body), now),
		"another process":  sign(ring, other(func(to *target) { to.process = "rep_a" }), []byte(body), now),
		"an expired one":   sign(ring, to, []byte(body), now.Add(-tokenLife)),
		"one of tomorrow":  sign(ring, to, []byte(body), now.Add(24*time.Hour)),
	} {
		if status := p.send(token); status != http.StatusUnauthorized {
			t.Errorf("%s: %d", what, status)
		}
	}
	if n := p.served.Load(); n != 0 {
		t.Errorf("%d requests were served", n)
	}
	if status := p.send(valid); status != http.StatusOK {
		t.Errorf("a valid one: %d", status)
	}
	for range 3 {
		if status := p.send(valid); status != http.StatusUnauthorized {
			t.Errorf("a token that was used before: %d", status)
		}
		p.clock.move(tokenLife / 3)
		p.send(sign(ring, to, []byte(body), p.clock.now())) // others are used meanwhile
	}
}

// verify has a verifier check a token for to.
func verify(v *verifier, token string, to target) error {
	_, err := v.verify(context.Background(), token, to)
	return err
}

// TestAlteredRequestIsRefused alters what somebody between two replicas may alter.
func TestAlteredRequestIsRefused(t *testing.T) {
	used := make(chan string, 1)
	p := newPair(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		used <- string(b)
	})
	for what, altered := range map[string]struct{ path, body string }{
		"another query":  {"/x?to=b", body},
		"without query":  {"/x", body},
		"another body":   {"/x?to=a", `{"a":1}`},
		"a longer body":  {"/x?to=a", body + " "},
		"without a body": {"/x?to=a", ""},
	} {
		token := sign(newRing(t, 'k'), target{node: "node_b", process: "rep_b", method: "POST", path: "/x", query: "to=a"}, []byte(body), p.clock.now())
		if status := p.sendTo(altered.path, altered.body, token); status < 400 {
			t.Errorf("%s: %d", what, status)
		}
		if status := p.sendTo("/x?to=a", body, token); (status == http.StatusOK) != strings.Contains(what, "query") {
			t.Errorf("the request itself after %s: %d", what, status) // a token is accepted once
		}
		select {
		case got := <-used:
			if got != body {
				t.Errorf("%s: %q was used", what, got)
			}
		default:
		}
	}
}

// TestEarlierVersionIsServedWhileItRuns has a process of an earlier version, whose tokens cover no body, start and stop.
func TestEarlierVersionIsServedWhileItRuns(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		served := make(chan string, 10)
		p := newPairOn(t, d, func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			must(t, err)
			served <- string(b)
		})
		narrow := func() string { return signNarrow(newRing(t, 'k'), to, p.clock.now()) }
		want := func(token string, status int) {
			t.Helper()
			if got := p.send(token); got != status {
				t.Errorf("got %d, want %d", got, status)
			}
		}
		want(narrow(), 401)
		earlier := newDirectory(d, p.clock, "node_c", "rep_c")
		must(t, earlier.write(t.Context()))
		token := narrow()
		want(token, 200)
		want(token, 401)
		must(t, earlier.clear(t.Context()))
		want(narrow(), 401)
		// It is killed.
		must(t, earlier.write(t.Context()))
		want(narrow(), 200)
		p.clock.move(aliveFor)
		want(narrow(), 401)
		// This version runs in its place.
		again := newDirectory(d, p.clock, "node_c", "rep_d")
		announce(t, again)
		must(t, again.write(t.Context()))
		want(narrow(), 401)
		// The peer is of an earlier version: its tokens are made for it.
		peer := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			v := verifier{ring: newRing(t, 'k'), now: p.clock.now, narrow: func(context.Context) bool { return true }}
			digest, err := v.verify(r.Context(), r.Header.Get(tokenHeader), target{node: "node_e", process: "rep_e", method: "POST", path: "/x"})
			if err != nil || digest != "" {
				t.Errorf("an earlier version gets another token: %v", err)
			}
		}))
		defer peer.Close()
		e := newDirectory(d, p.clock, "node_e", "rep_e")
		e.Self.Address = peer.Listener.Addr().String()
		must(t, e.write(t.Context()))
		must(t, p.client.Call(t.Context(), "node_e", "/x", nil, nil))
	})
}

// TestReplicasReachEachOtherWhileTheirMasterKeyIsReplaced has one replica that was restarted with the new key,
// and one that was not.
func TestReplicasReachEachOtherWhileTheirMasterKeyIsReplaced(t *testing.T) {
	before, after := newRing(t, 'k', 'n'), newRing(t, 'n', 'k')
	now := newClock().now
	for _, pair := range [][2]*seal.Ring{{before, after}, {after, before}} {
		v := verifier{ring: pair[1], now: now}
		must(t, verify(&v, sign(pair[0], to, []byte(body), now()), to))
	}
	v := verifier{ring: newRing(t, 'n'), now: now}
	if err := verify(&v, sign(before, to, []byte(body), now()), to); !errors.Is(err, errToken) {
		t.Errorf("a token of a key that was removed: %v", err)
	}
}

func TestNoncesAreForgottenAfterTheirTokens(t *testing.T) {
	c := newClock()
	v := verifier{ring: newRing(t, 'k'), now: c.now}
	for range 1000 {
		must(t, verify(&v, sign(v.ring, to, []byte(body), c.now()), to))
		c.move(time.Second)
	}
	if n := len(v.recent) + len(v.older); n > 100 {
		t.Errorf("%d nonces are kept", n)
	}
	last := sign(v.ring, to, []byte(body), c.now())
	must(t, verify(&v, last, to))
	used := c.now()
	for c.move(time.Second); ; c.move(time.Second) { // until it has expired
		err := verify(&v, last, to)
		if errors.Is(err, errExpired) {
			break
		}
		if !errors.Is(err, errReplay) {
			t.Fatalf("a token that was used before: %v", err)
		}
		must(t, verify(&v, sign(v.ring, to, []byte(body), c.now()), to))
	}
	for range 100 {
		c.move(time.Second)
		must(t, verify(&v, sign(v.ring, to, []byte(body), c.now()), to))
	}
	back := used.Sub(c.now())
	c.move(back)
	if err := verify(&v, last, to); !errors.Is(err, errSetBack) {
		t.Errorf("a used token after the clock was set back: %v", err)
	}
	c.move(-back)
	must(t, verify(&v, sign(v.ring, to, []byte(body), c.now()), to))
}

// TestSlowConnectionsKeepNobodyOut has an address open connections without a request, as many as it can.
func TestSlowConnectionsKeepNobodyOut(t *testing.T) {
	p := newPair(t, nil)
	p.server.Handler = p.answer("pong", nil)
	slow := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	refused := 0
	for range 2 * maxUnverified {
		c, err := slow.Dial("tcp", p.addr)
		must(t, err)
		defer func() { _ = c.Close() }()
		if _, err := io.WriteString(c, "POST /x HTTP/1.1\r\n"); err != nil {
			refused++
		}
	}
	for range 3 {
		var got string
		if err := p.client.Call(t.Context(), "node_b", "/x", nil, &got); err != nil || got != "pong" {
			t.Errorf("a replica gets %q (%v)", got, err)
		}
		p.client.Close() // so that the next one connects
	}
	if u := p.server.unverified.Usage(); u.Refused == 0 {
		t.Errorf("none of the slow connections was refused: %+v, %d writes failed", u, refused)
	}
}

// TestRefusedConnectionIsClosed announces a body that never comes, and a request after the refused one.
func TestRefusedConnectionIsClosed(t *testing.T) {
	p := newPair(t, func(http.ResponseWriter, *http.Request) {})
	for _, request := range []string{
		"POST /x HTTP/1.1\r\nHost: b\r\nContent-Length: 10\r\n\r\n",
		"POST /x HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
		"POST /x HTTP/1.1\r\nHost: b\r\nContent-Length: 0\r\n\r\nPOST /x HTTP/1.1\r\n",
	} {
		c, err := net.Dial("tcp", p.addr)
		must(t, err)
		_, err = io.WriteString(c, request)
		must(t, err)
		must(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		if answer, err := io.ReadAll(c); err != nil || !bytes.Contains(answer, []byte(errToken.Error())) {
			t.Errorf("%q: %q (%v)", request, answer, err)
		}
		must(t, c.Close())
	}
	if n := p.served.Load(); n != 0 {
		t.Errorf("%d requests were served", n)
	}
}

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

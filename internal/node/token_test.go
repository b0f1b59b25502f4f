package node

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/seal"
)

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

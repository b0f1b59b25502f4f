package web

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/auth"
	"steward/internal/budget"
	"steward/internal/errs"
	"steward/internal/web/pipetest"
)

func TestContainsNUL(t *testing.T) {
	for body, want := range map[string]bool{
		`{"a":"\u0000"}`:       true,
		`{"a":"x\\\u0000"}`:    true,
		`{"a":"\n\u0000"}`:     true,
		`{"a\u0000":1}`:        true,
		`{"a":"\\u0000"}`:      false,
		`{"a":"\\\\u0000"}`:    false,
		`{"a":"\u0001 u0000"}`: false,
		`{"a":"\""}`:           false,
	} {
		if got := containsNUL([]byte(body)); got != want {
			t.Errorf("%s: %v, want %v", body, got, want)
		}
	}
}

// TestConnectionWithIncompleteBodyIsClosed checks that a client cannot hold a connection by
// announcing a body that it does not send, whether it is authorized or not.
func TestConnectionWithIncompleteBodyIsClosed(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		after  time.Duration
	}{
		"authorized":   {400, budget.Body.Grace},
		"unauthorized": {401, budget.Body.Limit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { sendIncompleteBody(t, test.status, test.after) })
		})
	}
}

// TestLargeBodiesAreDecodedInTurn has one organization send large bodies while the body of another one
// is being decoded.
func TestLargeBodiesAreDecodedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		put := func(context.Context, *struct{ Body owner }) (None, error) { return None{}, nil }
		guard := func(_ Route, _ http.ResponseWriter, r *http.Request) *http.Request {
			return r.WithContext(auth.With(r.Context(), &auth.Caller{OrgID: r.URL.Query().Get("org")}))
		}
		api := NewAPI([]Route{On("PUT /owner", "", auth.Self, 204, "Replace the owner", put)}, guard, nil)
		send := func(org string, size int) int {
			r := httptest.NewRequest("PUT", "/owner?org="+org, strings.NewReader(`{"name":"x","more":"`+strings.Repeat("x", size)+`"}`))
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			return w.Code
		}
		if err := api.Decoding.queue.Enter(t.Context(), "other", ""); err != nil {
			t.Fatal(err)
		}
		if got := send("org", 1000); got != 204 {
			t.Errorf("a small body had to wait: %d", got)
		}
		start := time.Now()
		if got := send("org", largeText); got != 503 || time.Since(start) != decodeWait {
			t.Errorf("%d after %s", got, time.Since(start))
		}
		api.Decoding.queue.Leave("other")
		if got := send("org", largeText); got != 204 || api.Decoding.queue.Running() != 0 {
			t.Errorf("%d, and %d bodies are being decoded", got, api.Decoding.queue.Running())
		}
	})
}

// TestTooManyValuesAreNotDecoded decodes texts with as many values as are allowed, and with one more. Marks
// within strings do not count.
func TestTooManyValuesAreNotDecoded(t *testing.T) {
	note := `"` + strings.Repeat(`[{,:\"`, MaxBody/6) + `\\"`
	for text, want := range map[string]bool{
		"[" + strings.Repeat("[],", MaxBody/3-1) + "0]":            true,
		"[" + strings.Repeat("[],", MaxBody/3) + "0]":              false,
		"[" + strings.Repeat("0,", maxMarks-2) + note + "]":        true,
		"[" + strings.Repeat("0,", maxMarks) + note + "]":          false,
		"[" + note + strings.Repeat(`,{"":0}`, maxMarks/3) + "]":   true,
		"[" + note + strings.Repeat(`,{"":0}`, maxMarks/3+1) + "]": false,
	} {
		err := NewDecoding().Do(t.Context(), "org", []byte(text), func() error { return nil })
		if (err == nil) != want || err != nil && errs.KindOf(err) != errs.TooLarge {
			t.Errorf("%.20s of %d bytes: %v", text, len(text), err)
		}
	}
}

func sendIncompleteBody(t *testing.T, status int, after time.Duration) {
	put := func(context.Context, *struct{ Body owner }) (None, error) { return None{}, nil }
	guard := func(_ Route, w http.ResponseWriter, r *http.Request) *http.Request {
		if status == 401 {
			Fail(w, r, errs.New(errs.Unauthorized, "unauthorized"))
			return nil
		}
		return r
	}
	listener := make(pipetest.Listener)
	api := NewAPI([]Route{On("PUT /owner", "", auth.Self, 204, "Replace the owner", put)}, guard, nil)
	srv := &http.Server{Handler: api, IdleTimeout: time.Hour}
	go func() { _ = srv.Serve(listener) }()
	conn, err := listener.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, _ = io.WriteString(conn, "PUT /owner HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{\"name\":")
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != status {
		t.Fatalf("got %v, %v; want status %d", res, err, status)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	if _, err := in.ReadByte(); err == nil {
		t.Error("more bytes follow the response")
	}
	if took := time.Since(start); took < after || took > 2*after {
		t.Errorf("the connection was closed after %s", took)
	}
	close(listener)
	_ = srv.Close()
}

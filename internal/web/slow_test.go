package web

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/web/pipetest"
)

// TestBodyThatNeverComes: neither who may call nor who may not can hold a connection by announcing a body.
func TestBodyThatNeverComes(t *testing.T) {
	for name, status := range map[string]int{"refused after it is read": 400, "refused before": 401} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { announce(t, status) })
		})
	}
}

func announce(t *testing.T, status int) {
	put := func(context.Context, *struct{ Body owner }) (None, error) { return None{}, nil }
	guard := func(_ Route, w http.ResponseWriter, r *http.Request) *http.Request {
		if status == 401 {
			Fail(w, r, errs.New(errs.Unauthorized, "who are you"))
			return nil
		}
		return r
	}
	listener := make(pipetest.Listener)
	srv := &http.Server{Handler: NewAPI([]Route{On("PUT /owner", auth.Self, 204, "Put", put)}, guard, nil), IdleTimeout: time.Hour}
	go srv.Serve(listener)
	conn, _ := listener.Dial(t.Context(), "", "")
	began := time.Now()
	io.WriteString(conn, "PUT /owner HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{\"name\":")
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != status {
		t.Fatalf("got %v, %v", res, err)
	}
	io.Copy(io.Discard, res.Body)
	if _, err := in.ReadByte(); err == nil {
		t.Error("something came after the answer")
	}
	if took := time.Since(began); took < bodyTime || took > 2*bodyTime {
		t.Errorf("the connection ended after %v", took)
	}
	close(listener)
	srv.Close()
}

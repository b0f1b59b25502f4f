package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"steward/internal/app/listeners"
	"steward/internal/app/operator"
	"steward/internal/errs"
	"steward/internal/web"
)

// departure lets a process stop serving while it goes on running, because its rows move to another
// database.
type departure struct {
	once  sync.Once
	asked chan struct{} // closed when the process must stop serving
	left  chan struct{} // closed when it has stopped writing
	moved chan bool     // receives whether the rows were moved
	// refusing is closed once we refuse requests because the rows were moved.
	refusing chan struct{}
}

// begun reports whether the process was asked to stop serving.
func (d *departure) begun() bool {
	select {
	case <-d.asked:
		return true
	default:
		return false
	}
}

// leave makes the process stop serving, and returns when it has stopped writing.
func (d *departure) leave(ctx context.Context) error {
	d.once.Do(func() { close(d.asked) })
	select {
	case <-d.left:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end passes on whether the rows were moved. If they were, it returns once we refuse requests.
func (d *departure) end(moved bool) {
	d.moved <- moved
	if moved {
		<-d.refusing
	}
}

// errNotMoved is returned by a process that has stopped serving although its rows were not moved.
var errNotMoved = errors.New("the rows were not moved")

// depart waits until the rows were moved, then refuses requests until ctx ends. It returns
// errNotMoved if they were not. It takes no more operator commands: they would change the old rows.
func (s *process) depart(ctx context.Context, socket *operator.Socket) error {
	close(s.departure.left)
	if !<-s.departure.moved {
		return errNotMoved
	}
	listener, err := listeners.Reopen(s.addresses)
	close(s.departure.refusing)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	go socket.Finish(ctx) // the command may still move databases and stores
	return s.refuse(ctx, listener)
}

// refuse responds to all API requests with 503 until ctx ends.
func (s *process) refuse(ctx context.Context, listener net.Listener) error {
	srv := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		web.Fail(w, r, errs.Unavailablef(nil, "the data were moved to another database; start the server with that one"))
	})}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(s.secure.api(srv, listener)) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
		return srv.Close()
	}
}

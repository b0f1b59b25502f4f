package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"steward/internal/app/migrate"
	"steward/internal/app/operator"
	"steward/internal/errs"
	"steward/internal/web"
)

// departure is how a process stops serving because its rows move to another database, while it goes on
// running.
type departure struct {
	once  sync.Once
	asked chan struct{} // closed when the process is to stop serving
	left  chan struct{} // closed when it writes nothing any more
	moved chan bool     // receives whether the rows were moved
	// refusing is closed when requests are refused because the rows were moved.
	refusing chan struct{}
}

func newDeparture() *departure {
	return &departure{asked: make(chan struct{}), left: make(chan struct{}), moved: make(chan bool, 1), refusing: make(chan struct{})}
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

// leave has the process stop serving, and returns when it writes nothing any more.
func (d *departure) leave(ctx context.Context) error {
	d.once.Do(func() { close(d.asked) })
	select {
	case <-d.left:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end says whether the rows were moved. If they were, it returns when requests are refused.
func (d *departure) end(moved bool) {
	d.moved <- moved
	if moved {
		<-d.refusing
	}
}

// migrateHandler returns what moves the rows of the process.
func (s *process) migrateHandler(p *parts, stopping <-chan struct{}) *migrate.Handler {
	return &migrate.Handler{
		DB: s.db, Ring: s.ring, Config: s.cfg, Log: s.log, Leave: s.departure.leave, Stopping: stopping,
		End: s.departure.end,
		Others: func(ctx context.Context) (int, error) {
			n, err := p.server.Status.Processes.Count(ctx)
			return n - 1, err
		},
	}
}

// errNotMoved is returned by a process that has stopped serving, whose rows were not moved.
var errNotMoved = errors.New("the rows were not moved")

// depart waits until the rows were moved, and refuses requests until ctx ends. It returns errNotMoved if
// they were not. Commands of the operator are not taken any more: they would change the old rows.
func (s *process) depart(ctx context.Context, socket *operator.Socket) error {
	close(s.departure.left)
	if !<-s.departure.moved {
		return errNotMoved
	}
	listener, err := net.Listen("tcp", s.addresses.Listen["api"])
	close(s.departure.refusing)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	go socket.Finish(ctx) // the command may still move databases and stores
	return s.refuse(ctx, listener)
}

// refuse responds to all requests of the API with 503 until ctx ends.
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

// restart runs the program anew in the same process, with its arguments and environment.
func restart() error {
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start again: %w", err)
	}
	return fmt.Errorf("start again: %w", syscall.Exec(path, os.Args, os.Environ()))
}

package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"steward/internal/server"
)

// drainTimeout bounds how long running requests may take to finish when the process stops.
const drainTimeout = 10 * time.Second

// Signal is the cause of ending Main's context.
type Signal struct{ os.Signal }

func (s Signal) Error() string { return fmt.Sprintf("received the signal %s", s.Signal) }

// beginStopping shows that the process is stopping, and goes on serving for the drain delay: a balancer
// notices only with its next check, and sends requests until then. SIGINT and a second signal skip the
// delay.
func (s *process) beginStopping(ctx context.Context, p *parts) {
	again := make(chan os.Signal, 1)
	// We listen before anybody can see that we are stopping: main no longer does, so that a second signal
	// would end the process at once.
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(again)
	p.storage.server.Leave()
	p.server.Stopping.Store(true)
	s.log.Info("stopping")
	var received Signal
	if !errors.As(context.Cause(ctx), &received) || received.Signal != syscall.SIGTERM {
		return
	}
	select {
	case <-again:
	case <-time.After(s.cfg.DrainDelay):
	}
}

// leaving wraps a handler. Once the process is stopping, it asks clients to connect anew for their
// next request, so that they send none on a connection that we are closing.
func leaving(s *server.Server, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.Stopping.Load() {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
}

// drain closes the listeners, waits for running requests and WebSockets to finish, and then closes
// the rest.
func (s *process) drain(ctx context.Context, p *parts, api *http.Server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	p.server.Tail.Close()
	var others sync.WaitGroup
	others.Go(func() { // Shutdown does not know hijacked connections
		if err := p.server.Socket.Close(ctx); err != nil {
			s.log.Warn("WebSockets were closed before they finished", "error", err)
		}
	})
	others.Go(func() {
		if err := p.storage.server.Shutdown(ctx); err != nil {
			s.log.Warn("S3 requests were closed before they finished", "error", err)
		}
	})
	err := api.Shutdown(ctx)
	if err != nil {
		s.log.Warn("requests were closed before they finished", "error", err)
		err = api.Close()
	}
	others.Go(func() { p.nodes.close(ctx) })
	others.Wait()
	p.engines.close(ctx)
	return err
}

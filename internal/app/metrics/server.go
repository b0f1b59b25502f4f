package metrics

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server serves metrics and pprof. It has its own listener, so that neither becomes public with the
// API.
type Server struct {
	Address string // it listens here
	server  *http.Server
}

// Serve listens on an address and serves until Stop.
func (m *Metrics) Serve(address string, log *slog.Logger) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--metrics-listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.Handle("GET "+OrganizationsPath, m.organizations)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	errorLog := slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	s := &Server{
		Address: listener.Addr().String(),
		server:  &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: errorLog},
	}
	go func() {
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are not served any more", "error", err)
		}
	}()
	return s, nil
}

// Stop closes the listener and its connections; a running profile is cut off.
func (s *Server) Stop() {
	_ = s.server.Close()
}

package app

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

// metricsServer serves metrics and pprof. It has a listener of its own, so that neither becomes
// public with the API.
type metricsServer struct {
	address string
	server  *http.Server
}

// startMetricsServer listens on an address and serves until stop.
func startMetricsServer(address string, m *metrics, log *slog.Logger) (*metricsServer, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--metrics-listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	errorLog := slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	s := &metricsServer{
		address: listener.Addr().String(),
		server:  &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: errorLog},
	}
	go func() {
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are not served any more", "error", err)
		}
	}()
	return s, nil
}

// stop closes the listener and its connections; a running profile is cut off.
func (s *metricsServer) stop() {
	_ = s.server.Close()
}

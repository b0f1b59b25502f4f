package app

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"steward/internal/web"
)

// metrics counts requests and serves the counts, with pprof, on a listener of its own, so that neither is ever public by accident.
type metrics struct {
	address  string
	requests *prometheus.HistogramVec
	server   *http.Server
}

// startMetrics listens on an address; an empty one turns metrics off.
func startMetrics(address string, log *slog.Logger) (*metrics, error) {
	m := &metrics{}
	if address == "" {
		return m, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--metrics-listen: %w", err)
	}
	m.address = listener.Addr().String()
	m.requests = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "steward_http_request_seconds", Help: "Time to answer a request, by route and status.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8),
	}, []string{"route", "status"})
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.requests, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	m.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	go m.server.Serve(listener)
	return m, nil
}

func (m *metrics) count(s web.Served) {
	if m.requests != nil {
		m.requests.WithLabelValues(s.Route, strconv.Itoa(s.Status)).Observe(s.Took.Seconds())
	}
}

func (m *metrics) stop() {
	if m.server != nil {
		m.server.Close() // the stop does not wait for a profile
	}
}

// Package metrics has the process's Prometheus metrics, and serves them.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"steward/internal/app/tracing"
	"steward/internal/budget"
	"steward/internal/oidc"
	"steward/internal/web"
)

// Metrics holds the process's instruments. Other packages report through func fields that are set to
// its methods; values that they can only be asked for, such as a queue's depth, are gauges that we
// read at each scrape.
//
// Labels take few values: route patterns, statuses, and names that the code chooses, never a
// client's text. Databases and stores are labelled with their ids, up to a number; their counters go
// when they are deleted.
type Metrics struct {
	registry      *prometheus.Registry
	organizations *organizations

	requests        *prometheus.CounterVec
	requestDuration *prometheus.HistogramVec
	s3Requests      *prometheus.CounterVec
	s3Duration      *prometheus.HistogramVec
	accepted        prometheus.Counter
	refused         *prometheus.CounterVec
	deliveries      *prometheus.CounterVec
	attemptDuration prometheus.Histogram
	commitWrites    prometheus.Histogram
	commitWait      prometheus.Histogram
	slowWrites      *prometheus.CounterVec
	invalidationLag prometheus.Histogram
	tokensIssued    *prometheus.CounterVec
	tokensRefused   *prometheus.CounterVec
	logoutTokens    *prometheus.CounterVec
	mailSent        *prometheus.CounterVec
	mailFailed      prometheus.Counter
	mailDropped     prometheus.Counter
	backupFailures  prometheus.Counter
}

// New returns the metrics for a process that runs this version of the program.
func New(version string) *Metrics {
	registry := prometheus.NewRegistry()
	add := promauto.With(registry)
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return add.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return add.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	m := &Metrics{
		registry:      registry,
		organizations: newOrganizations(time.Now),
		requests: counters("steward_http_requests_total",
			"HTTP requests served, by route pattern and status.", "route", "status"),
		requestDuration: add.NewHistogramVec(prometheus.HistogramOpts{
			Name: "steward_http_request_duration_seconds", Help: "Time to serve an HTTP request, by route pattern.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8),
		}, []string{"route"}),
		s3Requests: counters("steward_s3_requests_total",
			"S3 requests served, by method and status.", "method", "status"),
		s3Duration: add.NewHistogramVec(prometheus.HistogramOpts{
			Name: "steward_s3_request_duration_seconds", Help: "Time from the headers of an S3 request to the beginning of its response, by method.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10),
		}, []string{"method"}),
		accepted: add.NewCounter(prometheus.CounterOpts{
			Name: "steward_webhook_ingest_accepted_total", Help: "Webhook requests stored and acknowledged.",
		}),
		refused: counters("steward_webhook_ingest_refused_total",
			"Webhook requests refused, by reason.", "reason"),
		deliveries: counters("steward_webhook_deliveries_total",
			"Delivery attempts that ended, by result.", "result"),
		attemptDuration: histogram("steward_webhook_attempt_duration_seconds",
			"Time of a delivery attempt, from the connection to the end of the response.",
			prometheus.ExponentialBuckets(0.001, 4, 9)),
		commitWrites: histogram("steward_db_commit_writes",
			"Writes committed in one transaction.", prometheus.ExponentialBuckets(1, 2, 11)),
		commitWait: histogram("steward_db_commit_wait_seconds",
			"Time that a write waited for its commit, fsync included.", prometheus.ExponentialBuckets(0.0005, 4, 8)),
		slowWrites: counters("steward_db_slow_writes_total",
			"Writes that held the only writer of SQLite for more than 100 ms, by route pattern.", "route"),
		invalidationLag: histogram("steward_cache_invalidation_lag_seconds",
			"Age of a change by another replica when the caches here were invalidated.",
			prometheus.ExponentialBuckets(0.01, 2, 9)),
		tokensIssued: counters("steward_oauth_tokens_issued_total",
			"Access tokens issued, by grant type.", "grant"),
		tokensRefused: counters("steward_oauth_tokens_refused_total",
			"Token requests refused, by grant type and OAuth error code.", "grant", "code"),
		logoutTokens: counters("steward_oauth_logout_tokens_total",
			"Attempts to send a logout token to a client, by result.", "result"),
		mailSent: counters("steward_mail_sent_total", "Mails that the mail server has taken, by kind.", "kind"),
		mailFailed: add.NewCounter(prometheus.CounterOpts{
			Name: "steward_mail_failures_total", Help: "Attempts to send a mail that failed.",
		}),
		mailDropped: add.NewCounter(prometheus.CounterOpts{
			Name: "steward_mail_dropped_total", Help: "Mails that were given up.",
		}),
		backupFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "steward_backup_failures_total", Help: "Backups at a schedule that failed, or did not remove older ones.",
		}),
	}
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "steward_build_info", Help: "1, with the version as a label.",
			ConstLabels: prometheus.Labels{"version": version},
		}, func() float64 { return 1 }),
	)
	return m
}

// Served counts an HTTP request.
func (m *Metrics) Served(s web.Served) {
	m.requests.WithLabelValues(s.Route, strconv.Itoa(s.Status)).Inc()
	observe(s.Context, m.requestDuration.WithLabelValues(s.Route), s.Took)
	m.organizations.served(s)
}

// ServedS3 counts an S3 request.
func (m *Metrics) ServedS3(s web.Served) {
	method := methodLabel(s.Method)
	m.s3Requests.WithLabelValues(method, strconv.Itoa(s.Status)).Inc()
	observe(s.Context, m.s3Duration.WithLabelValues(method), s.Took)
	m.organizations.servedS3(s)
}

// methodLabel returns the label for an S3 method. It comes from the request, so unknown ones share a
// label.
func methodLabel(method string) string {
	switch method {
	case "GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS":
		return method
	}
	return "unknown"
}

// Commit counts a committed transaction with one or more writes, the first of which waited for the
// given time.
func (m *Metrics) Commit(writes int, wait time.Duration) {
	m.commitWrites.Observe(float64(writes))
	m.commitWait.Observe(wait.Seconds())
}

// SlowWrite counts a write that others had to wait for.
func (m *Metrics) SlowWrite(route string) { m.slowWrites.WithLabelValues(route).Inc() }

// Invalidated counts caches invalidated because of another replica's change.
func (m *Metrics) Invalidated(lag time.Duration) { m.invalidationLag.Observe(lag.Seconds()) }

// TokenIssued counts an access token.
func (m *Metrics) TokenIssued(grant string) { m.tokensIssued.WithLabelValues(grantLabel(grant)).Inc() }

// TokenRefused counts a token request that failed with an OAuth error code.
func (m *Metrics) TokenRefused(grant, code string) {
	m.tokensRefused.WithLabelValues(grantLabel(grant), code).Inc()
}

// LogoutSent counts an attempt to send a logout token.
func (m *Metrics) LogoutSent(taken bool) {
	result := "failed"
	if taken {
		result = "success"
	}
	m.logoutTokens.WithLabelValues(result).Inc()
}

// grantLabel returns a short name for a grant type. It comes from the request, so unknown ones share
// a label.
func grantLabel(grant string) string {
	g, ok := oidc.GrantTypeNamed(grant)
	if !ok {
		return "unknown"
	}
	return g.Label()
}

// IngestAccepted counts a webhook request that was stored.
func (m *Metrics) IngestAccepted(orgID string) {
	m.accepted.Inc()
	m.organizations.accepted(orgID)
}

// IngestRefused counts a webhook request that was not stored.
func (m *Metrics) IngestRefused(reason string) { m.refused.WithLabelValues(reason).Inc() }

// Delivered counts a delivery attempt that ended.
func (m *Metrics) Delivered(ctx context.Context, result string, took time.Duration) {
	m.deliveries.WithLabelValues(result).Inc()
	observe(ctx, m.attemptDuration, took)
}

// observe adds a time to a histogram, with the trace that ctx belongs to as an exemplar.
func observe(ctx context.Context, h prometheus.Observer, took time.Duration) {
	traceID := tracing.ID(ctx)
	exemplars, ok := h.(prometheus.ExemplarObserver)
	if traceID == "" || !ok {
		h.Observe(took.Seconds())
		return
	}
	exemplars.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": traceID})
}

// MailTried counts an attempt to send a mail. dropped is true if it failed and the mail is given up.
func (m *Metrics) MailTried(kind string, sent, dropped bool) {
	if sent {
		m.mailSent.WithLabelValues(kind).Inc()
		return
	}
	m.mailFailed.Inc()
	if dropped {
		m.mailDropped.Inc()
	}
}

// Gauge is a value that we read at each scrape.
type Gauge struct{ name, help string }

// The gauges of which each process has one.
var (
	MailQueued          = Gauge{"steward_mail_queued", "Mails that wait to be sent or tried again."}
	QueueDepth          = Gauge{"steward_webhook_queue_depth", "Deliveries in the queue, due or waiting for a retry."}
	OldestDueAge        = Gauge{"steward_webhook_oldest_due_age_seconds", "Time since the oldest delivery in the queue became due; 0 if none is due."}
	FailingDestinations = Gauge{"steward_webhook_failing_destinations", "Destinations whose last attempts failed; counted up to 10,000."}
	ConnectionsUsed     = Gauge{"steward_db_connections_used", "Connections to the database in use; on SQLite, those that read."}
	ConnectionsLimit    = Gauge{"steward_db_connections_limit", "Connections to the database that may be in use at a time."}
	InFlightBytes       = Gauge{"steward_webhook_in_flight_bytes", "Memory reserved for deliveries that are being sent."}
	InFlightSockets     = Gauge{"steward_webhook_in_flight_sockets", "Connections in use for deliveries."}
	OpenSockets         = Gauge{"steward_thread_open_sockets", "WebSockets of runtimes that are open."}
	OpenTails           = Gauge{"steward_webhook_open_tails", "Live tails that are open."}
	TailLag             = Gauge{"steward_webhook_tail_lag_seconds", "Age of the oldest event that live tails cannot show yet, because an older transaction is still open on the PostgreSQL server."}
	Ready               = Gauge{"steward_ready", "1 if /readyz is 200, so that a load balancer sends requests here."}
	DatabaseReachable   = Gauge{"steward_db_reachable", "1 if the database responds within two seconds."}
	DiskFree            = Gauge{"steward_disk_free_bytes", "Free space on the disk of the data directory."}
	DiskReserve         = Gauge{"steward_disk_reserve_bytes", "Free space below which nothing is added (--disk-reserve)."}
	CertificatesFailing = Gauge{"steward_tls_certificates_failing", "TLS certificates that could not be read, obtained or renewed when that was last tried."}
	StoredObjects       = Gauge{"steward_storage_objects", "Objects in all buckets."}
	StoredBytes         = Gauge{"steward_storage_bytes", "Size of the objects in all buckets."}
)

// Read registers a gauge, and the function that returns its value.
func (m *Metrics) Read(g Gauge, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: g.name, Help: g.help}, value))
}

// CertificateExpiry registers when a domain's TLS certificate ends, in seconds since 1970.
func (m *Metrics) CertificateExpiry(domain string, read func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "steward_tls_certificate_expiry_timestamp_seconds", Help: "When a TLS certificate ends; 0 if there is none yet.",
		ConstLabels: prometheus.Labels{"domain": domain},
	}, read))
}

// Pool registers the usage of a pool of memory or slots.
func (m *Metrics) Pool(name string, usage func() budget.Usage) {
	labels := prometheus.Labels{"pool": name}
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "steward_budget_size", Help: "Size of a pool of memory (bytes) or slots.", ConstLabels: labels,
		}, func() float64 { return float64(usage().Total) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "steward_budget_used", Help: "What is in use of a pool.", ConstLabels: labels,
		}, func() float64 { return float64(usage().Common + usage().Reserve) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "steward_budget_organizations", Help: "Organizations that use a pool.", ConstLabels: labels,
		}, func() float64 { return float64(usage().Owners) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "steward_budget_refused_total", Help: "How often a pool had no room for a request.", ConstLabels: labels,
		}, func() float64 { return float64(usage().Refused) }),
	)
}

// Backups has the scheduled backups' values. Times are in seconds since 1970.
type Backups struct {
	// LastSuccess is 0 before the first backup.
	LastSuccess float64
	// Duration and Bytes belong to the last successful backup.
	Duration, Bytes float64
	// Due is when a backup is or was due.
	Due float64
}

// Backups registers the scheduled backups' gauges, which are read at each scrape.
func (m *Metrics) Backups(read func() Backups) {
	m.registry.MustRegister(m.backupFailures)
	m.Read(Gauge{"steward_backup_last_success_timestamp_seconds", "When the last backup at a schedule was completed; 0 before the first one."},
		func() float64 { return read().LastSuccess })
	m.Read(Gauge{"steward_backup_last_duration_seconds", "Time that the last backup at a schedule took."}, func() float64 { return read().Duration })
	m.Read(Gauge{"steward_backup_last_size_bytes", "What the last backup at a schedule has written."}, func() float64 { return read().Bytes })
	m.Read(Gauge{"steward_backup_due_timestamp_seconds", "When a backup is due by the schedule, or was and is not made yet."},
		func() float64 { return read().Due })
}

// BackupFailed counts a scheduled backup that failed, or did not remove older ones.
func (m *Metrics) BackupFailed() { m.backupFailures.Inc() }

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

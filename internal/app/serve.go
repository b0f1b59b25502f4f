package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"steward/internal/job"
	"steward/internal/web"
)

// drain is how long running requests may take to finish once the process is told to stop.
const drain = 10 * time.Second

// Serve runs Steward until ctx ends: lock, database, first start, listeners, loops; then the same in reverse. An error says what kept it
// from starting.
func Serve(ctx context.Context, cfg Config, stdout, stderr io.Writer) error {
	// The live heap is a few megabytes, so that Go's default would collect dozens of times a second under load. GOGC still wins.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	lock, err := LockDir(cfg.Data)
	if err != nil {
		return err
	}
	defer lock.Close()
	log, late := newLog(cfg, stderr)
	defer late.flush()
	o, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	defer o.db.Close()

	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	defer listener.Close()
	baseURL := cfg.BaseURL
	if baseURL == "" {
		baseURL = "http://" + reachable(listener.Addr())
	}
	m := newMetrics()
	var metricsAddress string
	if cfg.MetricsListen != "" {
		server, err := startMetricsServer(cfg.MetricsListen, m, log)
		if err != nil {
			return err
		}
		defer server.stop()
		metricsAddress = server.address
	}
	p := wire(cfg, o, baseURL, log, time.Now)
	if err := p.signIn.Open(ctx); err != nil {
		return err
	}
	// After all that can fail: the root key is told once.
	first, err := makeFirst(ctx, o.db, cfg, p.accounts, p.keys)
	if err != nil {
		return err
	}
	return p.run(ctx, cfg, o, running{
		baseURL: baseURL, listener: listener, metrics: m, metricsAddress: metricsAddress, log: log, late: late, stdout: stdout, first: first,
	})
}

// running is what Serve has made before anything is served.
type running struct {
	baseURL        string
	listener       net.Listener
	metrics        *metrics
	metricsAddress string // "" if they are not served
	log            *slog.Logger
	late           *lateWriter
	stdout         io.Writer
	first          *firstStart
}

// run serves until ctx ends, then drains.
func (p *parts) run(ctx context.Context, cfg Config, o *opened, r running) error {
	p.server.Done = r.metrics.served
	if cfg.LogLevel <= slog.LevelInfo {
		lines := requestLog{out: r.late, format: cfg.LogFormat}
		p.server.Done = func(s web.Served) { r.metrics.served(s); lines.write(s) }
	}
	stopping := &atomic.Bool{}
	p.server.Ready = readiness(stopping, o.db.Ping)
	handler, err := p.server.Handler()
	if err != nil {
		return err
	}
	var loops job.Group
	p.start(&loops, o.db, r.log, time.Now)
	defer loops.Stop()

	srv := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(r.listener) }()
	addresses := Addresses{PID: os.Getpid(), Version: Version(), BaseURL: r.baseURL, Listen: map[string]string{"api": r.listener.Addr().String()}}
	if r.metricsAddress != "" {
		addresses.Listen["metrics"] = r.metricsAddress
	}
	if err := WriteAddresses(cfg.Data, addresses); err != nil {
		r.log.Warn("steward.json could not be written", "error", err)
	}
	announce(r.stdout, cfg, addresses, r.first)

	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	stopping.Store(true)
	r.log.Info("stopping")
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := p.server.Socket.Close(bounded); err != nil { // Shutdown does not know the sockets
		r.log.Warn("sockets were cut off", "error", err)
	}
	if err := srv.Shutdown(bounded); err != nil {
		r.log.Warn("requests were cut off", "error", err)
		return srv.Close()
	}
	return nil
}

func readiness(stopping *atomic.Bool, ping func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if stopping.Load() {
			return errors.New("the process is stopping")
		}
		return ping(ctx)
	}
}

// reachable gives an address that a client on this machine can dial, also when we listen on all interfaces.
func reachable(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// announce prints where to go next. Only a first start has a secret to tell, and only when it made that itself.
func announce(w io.Writer, cfg Config, a Addresses, first *firstStart) {
	fmt.Fprintf(w, "Steward %s is ready.\n\n  API           %s\n  Reference     %s/docs\n  Data          %s\n", a.Version, a.BaseURL, a.BaseURL, cfg.Data)
	if a.Listen["metrics"] != "" {
		fmt.Fprintf(w, "  Metrics       http://%s/metrics\n", a.Listen["metrics"])
	}
	if first == nil {
		fmt.Fprintf(w, "\nThe root key was shown at the first start; `steward root-key` makes a new one when it is lost.\n")
		return
	}
	key := first.rootKey
	if cfg.RootKey != "" {
		key = "$STEWARD_ROOT_KEY"
	}
	fmt.Fprintf(w, "  Organization  %s\n  Project       %s\n  Root key      %s\n", first.OrgID, first.ProjectID, key)
	fmt.Fprintf(w, "\nKeep the root key: it is not shown again. Try it:\n\n  curl -H \"Authorization: Bearer %s\" %s/cli/auth/user\n", key, a.BaseURL)
}

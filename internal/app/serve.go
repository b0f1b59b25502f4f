package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"steward/internal/account"
	"steward/internal/app/backups"
	"steward/internal/app/blobs"
	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/app/listeners"
	"steward/internal/app/metrics"
	"steward/internal/app/migrate"
	"steward/internal/app/operator"
	"steward/internal/app/tracing"
	"steward/internal/budget"
	"steward/internal/cli/session"
	"steward/internal/db"
	"steward/internal/job"
	"steward/internal/resource"
	"steward/internal/sdk"
	"steward/internal/web"
	"steward/internal/webhook/eventlog"
)

// Serve runs the server until ctx ends, then drains requests and stops. It returns an error if it
// could not start.
func Serve(ctx context.Context, program session.Program, cfg config.Config) error {
	err := serveOnce(ctx, program, cfg)
	if !errors.Is(err, errNotMoved) {
		return err
	}
	path, err := os.Executable()
	if err == nil {
		err = syscall.Exec(path, os.Args, os.Environ()) // returns only if it fails
	}
	return fmt.Errorf("start again: %w", err)
}

func serveOnce(ctx context.Context, program session.Program, cfg config.Config) error {
	lock, err := datadir.Acquire(cfg.Data)
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := checkDirectory(cfg); err != nil {
		return err
	}
	log := newLog(cfg, program.Err)
	collected := metrics.New(Version())
	var tracer *tracing.Tracer
	if cfg.OTLPEndpoint != "" {
		tracer, err = tracing.Start(ctx, tracing.Options{Endpoint: cfg.OTLPEndpoint, Ratio: cfg.TraceRatio, Version: Version(), Log: log})
		if err != nil {
			return err
		}
	}
	observer := db.Observer{
		Commit: collected.Commit, SlowWrite: slowWrites(log, collected.SlowWrite), Invalidated: collected.Invalidated,
	}
	if tracer != nil {
		defer tracer.Stop()
		observer.Begin = tracer.Database
	}
	database, err := openDatabase(ctx, cfg, observer)
	if err != nil {
		return err
	}
	defer database.db.Close()
	for _, c := range database.db.Concerns(ctx) {
		log.Warn("PostgreSQL: "+c.Problem, "advice", c.Advice)
	}
	if err := migrate.CheckMoved(ctx, database.db, cfg.Force); err != nil {
		return err
	}
	for _, keyID := range database.unneededKeys {
		log.Warn("STEWARD_OLD_MASTER_KEYS names a key that no secret is encrypted with any more; remove it", "key", keyID)
	}
	if database.blobs, err = blobs.Open(ctx, cfg); err != nil {
		return err
	}
	if err := migrate.CheckStore(ctx, database.db, cfg); err != nil {
		return err
	}
	hasStores, err := resource.HasEmbedded(database.db.Read(ctx), resource.KV)
	if err != nil {
		return err
	}
	localhost, err := localhostURL(ctx, database.db, cfg)
	if err != nil {
		return err
	}
	cfg.BaseURL = cmp.Or(cfg.BaseURL, localhost)
	opened, err := listeners.Open(cfg, hasStores, localhost != "")
	if err != nil {
		return err
	}
	defer opened.Close()
	s := &process{
		base: base{
			database: database, cfg: cfg, addresses: opened.Addresses(cfg, Version()), log: log, now: time.Now,
			poolSizes: poolSizesWithin(budget.MemoryLimit()), environ: program.Environ,
		},
		stdout: program.Out, metrics: collected, tracer: tracer, listeners: opened,
		departure: &departure{asked: make(chan struct{}), left: make(chan struct{}), moved: make(chan bool, 1), refusing: make(chan struct{})},
	}
	if s.secure, err = s.openTLS(); err != nil {
		return err
	}
	if cfg.MetricsListen != "" {
		scraped, err := collected.Serve(cfg.MetricsListen, log)
		if err != nil {
			return err
		}
		defer scraped.Stop()
		s.addresses.Listen["metrics"] = scraped.Address
	}
	return s.run(ctx)
}

// process is a running program that has its lock, its database and its listeners.
type process struct {
	base
	stdout    io.Writer
	metrics   *metrics.Metrics
	tracer    *tracing.Tracer // nil: no traces are exported
	listeners *listeners.Listeners
	secure    *secure // nil if the listeners are plain
	departure *departure
}

// run connects the slices, starts their loops, and serves until ctx ends.
func (s *process) run(ctx context.Context) error {
	p, err := wire(s.base)
	if err != nil {
		return err
	}
	defer p.engines.closeServers()
	if err := s.prepare(ctx, p); err != nil {
		return err
	}
	handler := p.server.Handler()
	// Only after everything that can fail: the root key is printed once.
	var begun start
	if begun.created, err = p.bootstrap(ctx); err != nil {
		return err
	}
	if begun.setup, err = p.setupLink(ctx); err != nil {
		return err
	}
	if err := p.ensureCLI(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var watch, work job.Group
	watch.Go(limitMemory(p.engines.embeddedKV.KeyMemory))
	work.Go(job.Every(s.log, "check that the master key was not replaced", keyCheckEvery, s.stopIfReplaced(stop)))
	work.Go(job.Every(s.log, "check that the rows were not moved", movedCheckEvery, s.stopIfMoved(stop)))
	p.start(&watch, &work)
	if s.secure != nil {
		work.Go(s.secure.certificates.Run)
	}
	defer watch.Stop()
	defer work.Stop()
	control := operator.New(s.db, s.ring, s.addresses.BaseURL)
	control.Backup = &backups.Handler{Source: s.backupSource(), Log: s.log}
	control.Migrate = &migrate.Handler{
		DB: s.db, Ring: s.ring, Config: s.cfg, Log: s.log, Processes: p.server.Status.Processes,
		Leave: s.departure.leave, End: s.departure.end, Stopping: ctx.Done(),
	}
	socket := control.Serve(s.cfg.Data, s.log)
	defer socket.Stop()
	err = s.serve(ctx, p, handler, begun)
	if !s.departure.begun() {
		return err
	}
	work.Stop()
	watch.Stop()
	p.engines.closeServers()
	return s.depart(ctx, socket)
}

// prepare opens everything that the slices need before they serve.
func (s *process) prepare(ctx context.Context, p *parts) error {
	p.measure(s.metrics)
	s.secure.measure(s.metrics)
	s.metrics.Read(metrics.Ready, succeeds(p.server.Ready))
	p.storage.server.TLS = s.secure.s3()
	p.server.Status.Certificates = s.secure.states
	p.server.Done = func(served web.Served) {
		s.metrics.Served(served)
		logRequest(s.log, served)
	}
	p.storage.server.Done = func(served web.Served) {
		s.metrics.ServedS3(served)
		logRequest(s.log, served)
	}
	if s.tracer != nil {
		p.trace(s.tracer)
	}
	if err := p.provider.Open(ctx); err != nil {
		return err
	}
	p.connectTails()
	if err := p.engines.open(ctx); err != nil {
		return err
	}
	if err := p.engines.warnOfUnknownFiles(ctx, s.node); err != nil {
		return err
	}
	p.engines.warnOfLocalFiles(s.db.Dialect(), s.cfg)
	if err := p.resources.WarnOfMissingEngines(ctx); err != nil {
		return err
	}
	if err := p.resources.ReleaseOwn(ctx); err != nil {
		return err
	}
	return s.db.ContinueNumbers(ctx, eventlog.Last)
}

// serve serves on all listeners until ctx ends or one of them fails, and drains.
func (s *process) serve(ctx context.Context, p *parts, handler http.Handler, begun start) error {
	api := &http.Server{
		Handler: leaving(p.server, s.secure.strictTransport(s.cfg, s.addresses.BaseURL, handler)), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	refusals := &web.Refusals{Faces: []*web.Face{sdk.Face}, Log: s.log, Done: p.server.Done}
	apiListener := refusals.Attach(api, s.secure.api(api, s.listeners.API))
	if err := p.storage.server.Start(s.listeners.S3); err != nil {
		return err
	}
	kvEnded := p.engines.serve(s.secure.kv(s.listeners.KV))
	defer s.secure.serveRedirect(s.listeners.Redirect, s.log)()
	internalEnded := p.nodes.serve(s.listeners.Internal)
	apiEnded := make(chan error, 1)
	go func() { apiEnded <- api.Serve(apiListener) }()
	if err := datadir.WriteAddresses(s.cfg.Data, s.addresses); err != nil {
		s.log.Warn("steward.json was not written", "error", err)
	}
	if _, err := io.WriteString(s.stdout, banner(s.cfg, s.addresses, begun)); err != nil {
		s.log.Warn("the addresses and the root key were not printed", "error", err)
	}
	select {
	case err := <-apiEnded:
		return fmt.Errorf("serve: %w", err)
	case err := <-p.storage.server.Ended():
		return fmt.Errorf("serve S3: %w", err)
	case err := <-kvEnded:
		return fmt.Errorf("serve key-value stores: %w", err)
	case <-s.departure.asked:
	case err := <-internalEnded:
		return fmt.Errorf("serve other replicas: %w", err)
	case <-ctx.Done():
	}
	s.beginStopping(ctx, p)
	return s.drain(ctx, p, api)
}

// start has the findings for the banner.
type start struct {
	created *installation      // nil if there was one
	setup   *account.SetupLink // nil if the installation is set up
}

// banner returns the text that a start prints: where to go next, the root key if we generated it
// now, and how to sign in to the console for the first time.
func banner(cfg config.Config, a datadir.Addresses, begun start) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Steward %s is ready.\n\n", a.Version)
	fmt.Fprintf(&b, "  API           %s\n", a.BaseURL)
	fmt.Fprintf(&b, "  Console       %s/console/\n", a.BaseURL)
	fmt.Fprintf(&b, "  S3            %s\n", a.S3URL)
	if a.KVURL != "" {
		fmt.Fprintf(&b, "  Key-value     %s\n", a.KVURL)
	}
	fmt.Fprintf(&b, "  Reference     %s/docs\n", a.BaseURL)
	if address := a.Listen["metrics"]; address != "" {
		fmt.Fprintf(&b, "  Metrics       http://%s/metrics\n", address)
	}
	fmt.Fprintf(&b, "  Data          %s\n", cfg.Data)
	if begun.created == nil {
		b.WriteString("\nThe root key was printed at the first start; `steward root-key` creates another.\n")
	} else {
		writeCreated(&b, cfg, a, begun.created)
	}
	writeSignIn(&b, cfg, begun)
	return b.String()
}

// writeCreated writes the root key, and how to try it.
func writeCreated(b *strings.Builder, cfg config.Config, a datadir.Addresses, created *installation) {
	key := created.rootKey
	if cfg.RootKey != "" {
		key = "$STEWARD_ROOT_KEY"
	}
	fmt.Fprintf(b, "  Organization  %s\n", created.OrgID)
	fmt.Fprintf(b, "  Project       %s\n", created.ProjectID)
	fmt.Fprintf(b, "  Root key      %s\n", key)
	fmt.Fprintf(b, "\nStore the root key: it is not printed again. Try it:\n\n")
	fmt.Fprintf(b, "  curl -H \"Authorization: Bearer %s\" %s/cli/auth/user\n", key, a.BaseURL)
	fmt.Fprintf(b, "  steward login %s --key -    # paste the root key\n", a.BaseURL)
}

// writeSignIn writes how to sign in to the console for the first time. If you set a root key or an
// owner, you may be collecting the output, so it prints no link then.
func writeSignIn(b *strings.Builder, cfg config.Config, begun start) {
	switch {
	case begun.setup != nil && cfg.RootKey == "" && cfg.AdminEmail == "":
		fmt.Fprintf(b, "\nOpen this link to choose how you sign in to the console. It works once, until %v:\n\n", begun.setup.ExpiresAt)
		fmt.Fprintf(b, "Set up  %s\n", begun.setup.Link)
	case begun.setup != nil:
		fmt.Fprintf(b, "\nTo sign in to the console, open the link of:\n\n")
		fmt.Fprintf(b, "  steward setup-link --data %s\n", cfg.Data)
	case begun.created == nil || cfg.AdminEmail == "":
	case cfg.AdminPassword != "":
		fmt.Fprintf(b, "\nSign in to the console as %s.\n", cfg.AdminEmail)
	default:
		fmt.Fprintf(b, "\nTo sign in to the console, set a password with the link of:\n\n")
		fmt.Fprintf(b, "  steward reset-password %s --data %s\n", cfg.AdminEmail, cfg.Data)
	}
}

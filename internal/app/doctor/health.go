package doctor

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/cli/session"
)

// healthTimeout bounds one request, and healthEvery is the time between two.
const (
	healthTimeout = 5 * time.Second
	healthEvery   = 500 * time.Millisecond
)

// Health returns the command that asks a data directory's server whether it is ready.
func Health(p session.Program) *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Report whether the server on this machine is ready",
		Long: `Report whether the server that runs on the data directory is ready, as GET /readyz does. It needs no key, and
finds the address by itself. The exit code is 0 if the server is ready, and 1 if not: health checks of containers and of
systemd use it.`,
		Args: config.NoArguments,
		RunE: config.Loaded(p.Environ, func(ctx context.Context, cfg config.Config, _ []string) error {
			ctx, cancel := context.WithTimeout(ctx, max(wait, healthTimeout))
			defer cancel()
			for {
				err := healthy(ctx, cfg)
				if err == nil {
					_, err = fmt.Fprintln(p.Out, "ready")
					return err
				}
				if wait == 0 {
					return err
				}
				select {
				case <-time.After(healthEvery):
				case <-ctx.Done():
					return err
				}
			}
		}),
	}
	config.AddFlags(cmd, "config", "data")
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait for so long until it is ready, such as 1m (default: ask once)")
	return cmd
}

// healthy asks the running server. It is on this machine, so its certificate need not be valid for
// the address.
func healthy(ctx context.Context, cfg config.Config) error {
	// Not datadir.Running, which holds the lock for a moment: a server that starts just then would
	// be refused.
	running, err := datadir.ReadAddresses(cfg.Data)
	if err != nil {
		return fmt.Errorf("no server is running on %s", cfg.Data)
	}
	d := &doctor{cfg: cfg, running: &running}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	scheme := "http"
	if running.TLS {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+d.listening("api")+"/readyz", nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("the server (process %d) does not respond: %w", running.PID, err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the server (process %d) is not ready: %s", running.PID, res.Status)
	}
	return nil
}

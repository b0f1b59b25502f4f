package app

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/cli/output"
)

// The statuses of a check.
const (
	checkOK      = "ok"
	checkWarning = "warning"
	checkFailed  = "failed"
)

// finding is the result of a check.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"`
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"` // what to do, unless it is ok
}

// fine, warn and fail return findings; the caller sets the name of the check.
func fine(format string, args ...any) finding {
	return finding{Status: checkOK, Detail: fmt.Sprintf(format, args...)}
}

func warn(advice, format string, args ...any) finding {
	return finding{Status: checkWarning, Detail: fmt.Sprintf(format, args...), Advice: advice}
}

func fail(advice, format string, args ...any) finding {
	return finding{Status: checkFailed, Detail: fmt.Sprintf(format, args...), Advice: advice}
}

// doctorTimeout bounds each check.
const doctorTimeout = 20 * time.Second

// doctor checks an installation. It changes nothing but a file that it writes and removes.
type doctor struct {
	cfg Config
	// running has the addresses of the server that runs on the data directory, if there is one.
	running *Addresses
}

// examine runs all checks.
func examine(ctx context.Context, cfg Config) []finding {
	d := &doctor{cfg: cfg, running: runningServer(cfg.Data)}
	var all []finding
	for _, check := range []struct {
		name string
		run  func(context.Context) finding
	}{
		{"version", d.version},
		{"data directory", d.directory},
		{"disk", d.disk},
		{"fsync", d.fsync},
		{"clock", d.clock},
		{"database", d.database},
		{"master key", d.masterKey},
		{"API listener", d.listener("api", cfg.Listen, "--listen")},
		{"S3 listener", d.listener("s3", cfg.S3Listen, "--s3-listen")},
		{"KV listener", d.listener("kv", cfg.KVListen, "--kv-listen")},
		{"metrics listener", d.listener("metrics", cfg.MetricsListen, "--metrics-listen")},
		{"base URL", d.baseURL},
		{"egress", d.egress},
		{"open files", d.openFiles},
	} {
		ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
		f := check.run(ctx)
		cancel()
		f.Check = check.name
		all = append(all, f)
	}
	return all
}

func (p program) doctorCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the machine, the configuration and the data of a server",
		Long: `Check what steward serve would find with the same flags and environment: disk and fsync, clock, database,
master key, listeners, egress and versions. Each warning and each failure says what to do. The server may be
running. The exit code is 0 unless a check fails.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := Load(setFlags(cmd), p.environ)
			if err != nil {
				return err
			}
			found := examine(cmd.Context(), cfg)
			if err := printRows(p.client(), format, found, doctorColumns()); err != nil {
				return err
			}
			failed := 0
			for _, f := range found {
				if f.Status == checkFailed {
					failed++
				}
			}
			if failed > 0 {
				return fmt.Errorf("%d of %d checks failed", failed, len(found))
			}
			return nil
		},
	}
	addFlags(cmd, func(setting) bool { return true })
	addOutputFlag(cmd, &format)
	return cmd
}

func doctorColumns() []output.Column {
	return []output.Column{
		{Title: "CHECK", Path: "check", Keep: true},
		{Title: "STATUS", Path: "status", Kind: output.Status, Keep: true},
		{Title: "DETAIL", Keep: true, Value: func(item map[string]any) any {
			if advice, ok := item["advice"].(string); ok {
				return fmt.Sprintf("%v; %s", item["detail"], advice)
			}
			return item["detail"]
		}},
	}
}

// Package doctor checks a server's machine, configuration and data.
package doctor

import (
	"context"
	"fmt"
	"time"

	"steward/internal/app/config"
	"steward/internal/app/datadir"
)

// A check's statuses.
const (
	OK      = "ok"
	Warning = "warning"
	Failed  = "failed"
)

// Finding is a check's result.
type Finding struct {
	Check  string `json:"check"`
	Status string `json:"status"`
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"` // how to fix it, unless it is ok
}

// fine, warn and fail return findings; the caller sets the check's name.
func fine(format string, args ...any) Finding {
	return Finding{Status: OK, Detail: fmt.Sprintf(format, args...)}
}

func warn(advice, format string, args ...any) Finding {
	return Finding{Status: Warning, Detail: fmt.Sprintf(format, args...), Advice: advice}
}

func fail(advice, format string, args ...any) Finding {
	return Finding{Status: Failed, Detail: fmt.Sprintf(format, args...), Advice: advice}
}

// checkTimeout bounds each check.
const checkTimeout = 20 * time.Second

// doctor checks an installation. It changes nothing except for a file that it writes and removes.
type doctor struct {
	cfg     config.Config
	program string // this program's version
	// running has the addresses of the server that runs on the data directory, if there is one.
	running *datadir.Addresses
}

// Examine runs all checks on an installation. The version is this program's.
func Examine(ctx context.Context, cfg config.Config, version string) []Finding {
	d := &doctor{cfg: cfg, program: version, running: datadir.Running(cfg.Data)}
	var all []Finding
	for _, check := range []struct {
		name string
		run  func(context.Context) Finding
	}{
		{"version", d.version},
		{"data directory", d.directory},
		{"disk", d.disk},
		{"fsync", d.fsync},
		{"clock", d.clock},
		{"database", d.database},
		{"database settings", d.settings},
		{"live tails", d.tails},
		{"master key", d.masterKey},
		{"API listener", d.listener("api", cfg.Listen, "--listen")},
		{"S3 listener", d.listener("s3", cfg.S3Listen, "--s3-listen")},
		{"KV listener", d.listener("kv", cfg.KVListen, "--kv-listen")},
		{"metrics listener", d.listener("metrics", cfg.MetricsListen, "--metrics-listen")},
		{"redirect listener", d.listener("redirect", cfg.RedirectListen, "--redirect-listen")},
		{"internal listener", d.listener("internal", cfg.InternalListen, "--internal-listen")},
		{"TLS certificates", d.certificates},
		{"base URL", d.baseURL},
		{"egress", d.egress},
		{"open files", d.openFiles},
	} {
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		f := check.run(ctx)
		cancel()
		f.Check = check.name
		all = append(all, f)
	}
	return all
}

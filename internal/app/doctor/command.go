package doctor

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"steward/internal/app/config"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

// Command returns the command that prints all findings.
func Command(p session.Program) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the machine, the configuration and the data of a server",
		Long: `Check what steward serve would find with the same flags and environment: disk and fsync, clock, database,
master key, listeners, TLS certificates, egress and versions. Each warning and each failure says what to do.
The server may be running. The exit code is 0 unless a check fails.`,
		Args: config.NoArguments,
		RunE: config.Loaded(p.Environ, func(ctx context.Context, cfg config.Config, _ []string) error {
			found := Examine(ctx, cfg, p.Version)
			if err := session.PrintRows(p, format, found, columns()); err != nil {
				return err
			}
			failed := 0
			for _, f := range found {
				if f.Status == Failed {
					failed++
				}
			}
			if failed > 0 {
				return fmt.Errorf("%d of %d checks failed", failed, len(found))
			}
			return nil
		}),
	}
	config.AddFlags(cmd)
	session.AddFormatFlag(cmd, &format)
	return cmd
}

func columns() []output.Column {
	return []output.Column{
		{Title: "CHECK", Path: "check", Cut: output.CutNever},
		{Title: "STATUS", Path: "status", Kind: output.Status, Cut: output.CutNever},
		{Title: "DETAIL", Cut: output.CutNever, Value: func(item map[string]any) any {
			if advice, ok := item["advice"].(string); ok {
				return fmt.Sprintf("%v; %s", item["detail"], advice)
			}
			return item["detail"]
		}},
	}
}

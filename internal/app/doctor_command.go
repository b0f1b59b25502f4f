package app

import (
	"fmt"

	"github.com/spf13/cobra"

	"steward/internal/app/config"
	"steward/internal/app/doctor"
	"steward/internal/cli/output"
)

func (p program) doctorCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the machine, the configuration and the data of a server",
		Long: `Check what steward serve would find with the same flags and environment: disk and fsync, clock, database,
master key, listeners, egress and versions. Each warning and each failure says what to do. The server may be
running. The exit code is 0 unless a check fails.`,
		Args: config.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(config.Given(cmd), p.environ)
			if err != nil {
				return err
			}
			found := doctor.Examine(cmd.Context(), cfg, Version())
			if err := printRows(p.client(), format, found, doctorColumns()); err != nil {
				return err
			}
			failed := 0
			for _, f := range found {
				if f.Status == doctor.Failed {
					failed++
				}
			}
			if failed > 0 {
				return fmt.Errorf("%d of %d checks failed", failed, len(found))
			}
			return nil
		},
	}
	config.AddFlags(cmd)
	addOutputFlag(cmd, &format)
	return cmd
}

func doctorColumns() []output.Column {
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

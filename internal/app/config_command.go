package app

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"steward/internal/app/config"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

func (p program) configCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the settings in force and where each came from",
		Long: `Show the settings that steward serve would use with the same flags and environment, and where each came
from. Secrets are hidden.`,
		Args: config.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := config.Explain(config.Given(cmd), p.environ)
			if err != nil {
				return err
			}
			return printRows(p.client(), format, all, []output.Column{
				output.Name("SETTING", "name"), {Title: "VALUE", Path: "value"}, {Title: "FROM", Path: "source"},
			})
		},
	}
	config.AddFlags(cmd)
	addOutputFlag(cmd, &format)
	return cmd
}

// addOutputFlag adds the flag -o, as client commands have it.
func addOutputFlag(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVarP(format, "output", "o", "", session.FormatUsage)
}

// printRows prints rows as a list.
func printRows[T any](p session.Program, format string, rows []T, columns []output.Column) error {
	printer, err := p.Printer(format)
	if err != nil {
		return err
	}
	list := printer.List(columns)
	for _, row := range rows {
		raw, err := json.Marshal(row)
		if err != nil {
			return err
		}
		if err := list.Add(raw); err != nil {
			return err
		}
	}
	return list.Close()
}

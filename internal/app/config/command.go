package config

import (
	"github.com/spf13/cobra"

	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

// Command returns the command that shows the settings in force.
func Command(p session.Program) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the settings in force and where each came from",
		Long: `Show the settings that steward serve would use with the same flags and environment, and where each came
from. Secrets are hidden.`,
		Args: NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := Explain(Given(cmd), p.Environ)
			if err != nil {
				return err
			}
			return session.PrintRows(p, format, all, []output.Column{
				output.Name("SETTING", "name"), {Title: "VALUE", Path: "value"}, {Title: "FROM", Path: "source"},
			})
		},
	}
	AddFlags(cmd)
	session.AddFormatFlag(cmd, &format)
	return cmd
}

package config

import (
	"github.com/spf13/cobra"

	"steward/internal/cli/exit"
)

// NoArguments refuses arguments without repeating them: one may be a secret whose flag is missing.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return exit.Usagef("%s takes flags only; see `%[1]s --help`", cmd.CommandPath())
}

// OneArgument requires one argument, such as a "name".
func OneArgument(description string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && args[0] != "" {
			return nil
		}
		return exit.Usagef("%s takes one %s; see `%[1]s --help`", cmd.CommandPath(), description)
	}
}

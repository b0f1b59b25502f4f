package session

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"steward/internal/cli/output"
)

// AddFormatFlag adds the flag -o to a command that does not have the client commands' flags.
func AddFormatFlag(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVarP(format, "output", "o", "", formatUsage)
}

// PrintRows prints rows as a list in a format, or returns a usage error. An empty format is a table.
func PrintRows[T any](p Program, format string, rows []T, columns []output.Column) error {
	printer, err := (&Env{Program: p, format: format}).NewPrinter()
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

package session

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/cli/exit"
	"steward/internal/cli/output"
)

// AddGlobalFlags adds the flags that all client commands have.
func (e *Env) AddGlobalFlags(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVarP(&e.format, "output", "o", "", "output `format`: json, yaml, ndjson or wide (default: a table)")
	flags.StringVar(&e.context, "context", "", "use the server of this `context`")
	flags.BoolVarP(&e.yes, "yes", "y", false, "do not ask before something is deleted")
	flags.BoolVarP(&e.Verbose, "verbose", "v", false, "print each request to standard error")
	Complete(cmd, "output", func([]string) []string { return output.Formats })
	Complete(cmd, "context", func([]string) []string { return e.ContextNames() })
}

// Complete registers the values of a flag for the completion of shells. They may depend on the arguments
// that were given.
func Complete(cmd *cobra.Command, flag string, values func(args []string) []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return values(args), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the flag was just added
	}
}

// Printer returns a printer for a format, or a usage error. An empty format is a table.
func (p Program) Printer(format string) (*output.Printer, error) {
	return (&Env{Program: p, format: format}).NewPrinter()
}

// NewPrinter returns a printer for the format that the user has chosen.
func (e *Env) NewPrinter() (*output.Printer, error) {
	format := output.Table
	if e.format != "" {
		format = output.Format(e.format)
		if !slices.Contains(output.Formats, e.format) {
			return nil, exit.Usagef("-o must be one of %s", strings.Join(output.Formats, ", "))
		}
	}
	return &output.Printer{Out: e.Out, Format: format, Width: e.width(), Color: e.color(e.Out), Now: time.Now}, nil
}

// ShowHelp is the RunE of a command that only has subcommands.
func ShowHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

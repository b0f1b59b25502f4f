package cli

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/cli/output"
)

// addGlobalFlags adds the flags that all client commands have.
func (e *env) addGlobalFlags(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVarP(&e.format, "output", "o", "", "output `format`: json, yaml, ndjson or wide (default: a table)")
	flags.StringVar(&e.context, "context", "", "use the server of this `context`")
	flags.BoolVarP(&e.yes, "yes", "y", false, "do not ask before something is deleted")
	flags.BoolVarP(&e.verbose, "verbose", "v", false, "print each request to standard error")
	complete(cmd, "output", func() []string { return output.Formats })
	complete(cmd, "context", e.contextNames)
}

// complete registers the values of a flag for the completion of shells.
func complete(cmd *cobra.Command, flag string, values func() []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values(), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the flag was just added
	}
}

// Printer returns a printer for a format, or a usage error. An empty format is a table.
func (p Program) Printer(format string) (*output.Printer, error) {
	return (&env{Program: p, format: format}).printer()
}

// printer returns a printer for the format that the user has chosen.
func (e *env) printer() (*output.Printer, error) {
	format := output.Table
	if e.format != "" {
		format = output.Format(e.format)
		if !slices.Contains(output.Formats, e.format) {
			return nil, usagef("-o must be one of %s", strings.Join(output.Formats, ", "))
		}
	}
	return &output.Printer{Out: e.Out, Format: format, Width: e.width(), Color: e.color(e.Out), Now: time.Now}, nil
}

// color reports whether escape sequences may be written to a stream.
func (e *env) color(stream any) bool {
	return isTerminal(stream) && e.getenv("NO_COLOR") == "" && e.getenv("TERM") != "dumb"
}

package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/cli/exit"
	"steward/internal/cli/output"
)

// formatUsage is the help for the flag --output.
const formatUsage = "output `format`: table, wide, json, yaml or ndjson (default table)"

// AddGlobalFlags adds the flags that all client commands have.
func (e *Env) AddGlobalFlags(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVarP(&e.format, "output", "o", "", formatUsage)
	flags.StringVar(&e.jq, "jq", "", "print what this jq `expression` selects of the JSON")
	flags.StringVar(&e.context, "context", "", "use the server of this `context`")
	flags.BoolVarP(&e.yes, "yes", "y", false, "do not ask before something is deleted")
	flags.BoolVarP(&e.Verbose, "verbose", "v", false, "print each request to standard error")
	Complete(cmd, "output", func([]string) []string { return output.Formats })
	Complete(cmd, "context", func([]string) []string { return e.ContextNames() })
}

// Complete registers a flag's values for shell completion. They may depend on the arguments given so
// far.
func Complete(cmd *cobra.Command, flag string, values func(args []string) []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return values(args), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the flag was just added
	}
}

// NewPrinter returns a printer for the format and the filter that the user has chosen.
func (e *Env) NewPrinter() (*output.Printer, error) {
	p := &output.Printer{Out: e.Out, Format: output.Table, Width: e.width(), Color: e.color(e.Out), Now: time.Now}
	if e.format != "" {
		p.Format = output.Format(e.format)
		if !slices.Contains(output.Formats, e.format) {
			return nil, exit.Usagef("-o must be one of %s", strings.Join(output.Formats, ", "))
		}
	}
	if e.jq == "" {
		return p, nil
	}
	switch e.format {
	case "":
		p.Format = output.JSON
	case string(output.JSON), string(output.NDJSON):
	default:
		return nil, exit.Usagef("--jq selects from JSON: use it without -o, or with -o json or -o ndjson")
	}
	var err error
	p.Filter, err = output.ParseFilter(e.jq)
	if err != nil {
		return nil, exit.Usagef("--jq %s: %v", e.jq, err)
	}
	return p, nil
}

// HasFormat reports whether the user has chosen an output format or filter.
func (e *Env) HasFormat() bool { return e.format != "" || e.jq != "" }

// ShowHelp is the RunE for a command that only has subcommands.
func ShowHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// Parent returns a command that only has subcommands.
func Parent(name, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Args: Args(), RunE: ShowHelp, DisableFlagsInUseLine: true}
	cmd.AddCommand(children...)
	return cmd
}

// Args requires arguments with these names. One in brackets may be missing, one that ends with … may
// be repeated.
func Args(names ...string) cobra.PositionalArgs {
	least, most := 0, len(names)
	for _, name := range names {
		if !strings.HasPrefix(name, "[") {
			least++
		}
		if strings.HasSuffix(strings.TrimSuffix(name, "]"), "…") {
			most = 1 << 20
		}
	}
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= most {
			return nil
		}
		if cmd.HasSubCommands() && len(names) == 0 {
			name := args[0]
			advice := fmt.Sprintf("see `%s --help`", cmd.CommandPath())
			parent := ""
			if cmd.HasParent() {
				parent = " of " + cmd.CommandPath()
			}
			cmd.SuggestionsMinimumDistance = 2
			if similar := cmd.SuggestionsFor(name); len(similar) > 0 {
				advice = "did you mean " + similar[0] + "?"
			}
			return exit.Usagef("unknown command %q%s; %s", name, parent, advice)
		}
		takes := "no arguments"
		if len(names) > 0 {
			takes = strings.Join(names, " ")
		}
		return exit.Usagef("%s takes %s; see `%[1]s --help`", cmd.CommandPath(), takes)
	}
}

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

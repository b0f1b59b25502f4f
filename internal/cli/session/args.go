package session

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/cli/exit"
)

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

package cli

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"steward/internal/cli/contexts"
	"steward/internal/cli/output"
)

func (e *env) whoamiCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "whoami",
		Short:   "Show who is signed in, and where",
		GroupID: groupAccount,
		Args:    exactly(),
		RunE: e.command(func(ctx context.Context, s *session, _ []string) error {
			p, raw, err := s.profile(ctx)
			if err != nil {
				return err
			}
			if !s.out.Tabular() {
				return s.out.Item(raw)
			}
			return s.out.Text("%s (%s) in %s (%s) at %s", output.Clean(p.describe()), p.Role,
				output.Clean(p.Organizations[0].Name), p.Organizations[0].ID, s.context.URL)
		}),
	}
}

func (e *env) contextCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "context",
		Short:   "List and choose the servers that you are signed in to",
		GroupID: groupAccount,
		Args:    exactly(),
		RunE:    showHelp,
	}
	list := &cobra.Command{
		Use: "list", Short: "List contexts; the current one is marked", Args: exactly(), Aliases: []string{"ls"},
		RunE: func(*cobra.Command, []string) error { return e.listContexts() },
	}
	use := &cobra.Command{
		Use: "use NAME", Short: "Make a context the current one", Args: exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error { return e.useContext(args[0]) },
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return e.contextNames(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.AddCommand(list, use)
	return cmd
}

// contextLine is a context without its credentials.
type contextLine struct {
	Name    string `json:"name"`
	URL     string `json:"url"`
	User    string `json:"user"`
	OrgID   string `json:"org_id"`
	Signin  string `json:"sign_in"` // key or token
	Current bool   `json:"current"`
}

func (e *env) listContexts() error {
	out, err := e.printer()
	if err != nil {
		return err
	}
	file, err := contexts.Default(e.getenv)
	if err != nil {
		return err
	}
	all, err := file.Read()
	if err != nil {
		return err
	}
	list := out.List([]output.Column{
		{Title: "CURRENT", Value: func(item map[string]any) any {
			return map[bool]string{true: "*"}[item["current"] == true]
		}},
		output.ID("NAME", "name"),
		{Title: "URL", Path: "url"},
		{Title: "USER", Path: "user"},
		{Title: "SIGNED IN WITH", Path: "sign_in"},
		{Title: "ORGANIZATION", Path: "org_id", Wide: true},
	})
	for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
		c := all.Contexts[name]
		line := contextLine{name, c.URL, c.User, c.OrgID, "key", name == all.Current}
		if c.Token != nil {
			line.Signin = "token"
		}
		raw, err := json.Marshal(line)
		if err != nil {
			return err
		}
		if err := list.Add(raw); err != nil {
			return err
		}
	}
	if list.Count() == 0 && out.Tabular() {
		e.note("There are no contexts; sign in with `steward login URL`.")
	}
	return list.Close()
}

func (e *env) useContext(name string) error {
	file, err := contexts.Default(e.getenv)
	if err != nil {
		return err
	}
	var url string
	err = file.Update(func(all *contexts.All) error {
		c, ok := all.Contexts[name]
		if !ok {
			return &failure{
				code: ExitNotFound, message: "there is no context " + name,
				advice: "List the contexts with `steward context list`.",
			}
		}
		url = c.URL
		all.Current = name
		return nil
	})
	if err != nil {
		return err
	}
	e.note("The current context is %s (%s).", name, url)
	if e.getenv(EnvURL) != "" || e.getenv(EnvKey) != "" {
		e.note("%s and %s in the environment take precedence over it.", EnvURL, EnvKey)
	}
	return nil
}

// contextNames returns the names of the contexts, for completion.
func (e *env) contextNames() []string {
	file, err := contexts.Default(e.getenv)
	if err != nil {
		return nil
	}
	all, err := file.Read()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(all.Contexts))
}

// showHelp is the RunE of a command that only has subcommands.
func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

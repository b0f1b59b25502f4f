package account

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"steward/internal/cli/contexts"
	"steward/internal/cli/exit"
	"steward/internal/cli/noun"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

func whoamiCommand(e *session.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "whoami",
		Short: "Show who is signed in, and where",
		Args:  session.Args(),
		RunE: e.Command(func(ctx context.Context, s *session.Session, _ []string) error {
			p, raw, err := s.Profile(ctx)
			if err != nil {
				return err
			}
			if !s.Printer.Tabular() {
				return s.Printer.Item(raw)
			}
			return s.Printer.Text("%s (%s) in %s (%s) at %s", output.Clean(p.Describe()), p.Role,
				output.Clean(p.Organizations[0].Name), p.Organizations[0].ID, s.Context.URL)
		}),
	}
}

func contextCommand(e *session.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "List and choose the servers that you are signed in to",
		Args:  session.Args(),
		RunE:  session.ShowHelp,
	}
	var flags noun.ListFlags
	list := &cobra.Command{
		Use: "list", Short: "List contexts; the current one is marked", Args: session.Args(), Aliases: []string{"ls"},
		RunE: func(cmd *cobra.Command, _ []string) error { return listContexts(cmd.Context(), e, flags) },
	}
	flags.Add(list)
	use := &cobra.Command{
		Use: "use NAME", Short: "Make a context the current one", Args: session.Args("NAME"),
		RunE: func(_ *cobra.Command, args []string) error { return useContext(e, args[0]) },
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return e.ContextNames(), cobra.ShellCompDirectiveNoFileComp
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

func listContexts(ctx context.Context, e *session.Env, flags noun.ListFlags) error {
	out, err := e.NewPrinter()
	if err != nil {
		return err
	}
	file, err := contexts.Default(e.Getenv)
	if err != nil {
		return err
	}
	columns := []output.Column{
		{Title: "CURRENT", Value: func(item map[string]any) any {
			return map[bool]string{true: "*"}[item["current"] == true]
		}},
		output.Name("NAME", "name"),
		{Title: "URL", Path: "url"},
		{Title: "USER", Path: "user"},
		{Title: "SIGNED IN WITH", Path: "sign_in"},
		{Title: "ORGANIZATION", Path: "org_id", Wide: true},
	}
	if !flags.Watch && len(e.ContextNames()) == 0 && out.Tabular() {
		e.Note("There are no contexts; sign in with `steward login URL`.")
		return nil
	}
	return noun.PrintList(ctx, &session.Session{Env: e, Printer: out}, columns, contextLines(file), flags)
}

func contextLines(file contexts.File) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		all, err := file.Read()
		if err != nil {
			yield(nil, err)
			return
		}
		for _, name := range slices.Sorted(maps.Keys(all.Contexts)) {
			c := all.Contexts[name]
			line := contextLine{name, c.URL, c.User, c.OrgID, "key", name == all.Current}
			if c.Token != nil {
				line.Signin = "token"
			}
			if !yield(json.Marshal(line)) {
				return
			}
		}
	}
}

func useContext(e *session.Env, name string) error {
	file, err := contexts.Default(e.Getenv)
	if err != nil {
		return err
	}
	var url string
	err = file.Update(func(all *contexts.All) error {
		c, ok := all.Contexts[name]
		if !ok {
			return &exit.Error{
				Code: exit.NotFound, Message: "there is no context " + name,
				Advice: "List the contexts with `steward context list`.",
			}
		}
		url = c.URL
		all.Current = name
		return nil
	})
	if err != nil {
		return err
	}
	e.Note("The current context is %s (%s).", name, url)
	if e.Getenv(session.EnvURL) != "" || e.Getenv(session.EnvKey) != "" {
		e.Note("%s and %s in the environment take precedence over it.", session.EnvURL, session.EnvKey)
	}
	return nil
}

package app

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/cli"
	"steward/internal/cli/output"
)

// effective is a setting as it is in force.
type effective struct {
	Name   string `json:"name"`
	Value  string `json:"value"`  // hidden if it is a secret
	Source string `json:"source"` // where it came from
}

// explain returns the settings in force. The error is that of Load.
func explain(flags map[string]string, environ []string) ([]effective, error) {
	c, l := load(flags, environ)
	if err := l.err(); err != nil {
		return nil, err
	}
	var all []effective
	for _, s := range l.settings {
		all = append(all, l.effective(s))
	}
	names := make([]string, len(c.Regions))
	for i, r := range c.Regions {
		names[i] = r.Region
	}
	source := "default"
	if l.regions != "" {
		source = l.regions
	}
	return append(all, effective{regionsKey, strings.Join(names, ","), source}), nil
}

func (l *loader) effective(s setting) effective {
	source, given := l.sources[s.name]
	switch {
	case !given && s.value == "":
		return effective{s.name, "", "not set"}
	case !given:
		return effective{s.name, s.value, "default"}
	case s.kind == secret && s.name != "admin-email":
		return effective{s.name, "(secret)", source}
	}
	return effective{s.name, withoutPassword(l.texts[s.name]), source}
}

// withoutPassword returns a text, or a URL without the password in it.
func withoutPassword(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	u, err := url.Parse(text)
	if err != nil {
		return "(secret)"
	}
	if u.Query().Has("password") { // as PostgreSQL allows
		return "(secret)"
	}
	return u.Redacted()
}

func (p program) configCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the settings in force and where each came from",
		Long: `Show the settings that steward serve would use with the same flags and environment, and where each came
from. Secrets are hidden.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := explain(setFlags(cmd), p.environ)
			if err != nil {
				return err
			}
			return printRows(p.client(), format, all, []output.Column{
				output.ID("SETTING", "name"), {Title: "VALUE", Path: "value"}, {Title: "FROM", Path: "source"},
			})
		},
	}
	addFlags(cmd, func(setting) bool { return true })
	addOutputFlag(cmd, &format)
	return cmd
}

// addOutputFlag adds the flag -o, as client commands have it.
func addOutputFlag(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVarP(format, "output", "o", "", "output `format`: json, yaml, ndjson or wide (default: a table)")
}

// printRows prints rows as a list.
func printRows[T any](p cli.Program, format string, rows []T, columns []output.Column) error {
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

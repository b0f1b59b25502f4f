package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"steward/internal/cli/exit"
	"steward/internal/cli/output"
	"steward/internal/cli/session"
)

// flagValue keeps a flag's text. Load parses it, so that we report all faults together.
type flagValue struct {
	text string
	kind kind
}

// Set implements pflag.Value.
func (v *flagValue) Set(text string) error {
	v.text = text
	return nil
}

// String implements pflag.Value.
func (v *flagValue) String() string { return v.text }

// Type implements pflag.Value. The help prints no value for "bool".
func (v *flagValue) Type() string {
	if v.kind == boolean {
		return "bool"
	}
	return "string"
}

// AddFlags adds a flag for each setting that is not a secret, or only for the named ones.
func AddFlags(cmd *cobra.Command, names ...string) {
	cmd.Flags().SortFlags = false // the table begins with the important ones
	for _, s := range settings(&Config{}) {
		if s.kind == secret || len(names) > 0 && !slices.Contains(names, s.name) {
			continue
		}
		f := cmd.Flags().VarPF(&flagValue{s.value, s.kind}, s.name, "", s.usage)
		if s.kind == boolean {
			f.NoOptDefVal = "true"
		}
	}
}

// Given returns the settings given on the command line.
func Given(cmd *cobra.Command) map[string]string {
	flags := map[string]string{}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if _, ok := f.Value.(*flagValue); ok { // not --help
			flags[f.Name] = f.Value.String()
		}
	})
	return flags
}

// Loaded returns a command's function, which runs with the configuration from its flags and an
// environment.
func Loaded(environ []string, run func(ctx context.Context, c Config, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := Load(Given(cmd), environ)
		if err != nil {
			return err
		}
		return run(cmd.Context(), c, args)
	}
}

// FlagError turns pflag's error into a usage error that suggests a flag and shows no value.
func FlagError(cmd *cobra.Command, err error) error {
	if errors.As(err, new(*pflag.InvalidSyntaxError)) {
		return exit.Usagef("flags have the form --name=value")
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return exit.Usagef("%v", err)
	}
	if unknown.GetSpecifiedShortnames() != "" {
		return exit.Usagef("unknown flag -%s; %s", unknown.GetSpecifiedName(), shortAdvice(cmd))
	}
	name := unknown.GetSpecifiedName()
	for _, s := range settings(&Config{}) {
		if s.kind == secret && s.name == name {
			return exit.Usagef("--%s is not a flag, because other users of the machine can read command lines: "+
				"set %s, or %s_FILE to the path of a file", name, s.env(), s.env())
		}
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
	return exit.Usagef("unknown flag --%s%s", name, suggestion("--"+name, known, cmd.CommandPath()+" --help"))
}

// shortAdvice returns advice about an unknown flag with one letter. Only client commands have such
// flags.
func shortAdvice(cmd *cobra.Command) string {
	if cmd.Flags().ShorthandLookup("o") != nil {
		return "see `" + cmd.CommandPath() + " --help`"
	}
	return "flags begin with --"
}

// Help describes where settings come from, and lists those that are not flags; cobra lists the
// flags.
func Help() string {
	var b strings.Builder
	b.WriteString(`A setting is taken from its flag, else from the environment (--base-url: STEWARD_BASE_URL), else
from the YAML file named by --config (base_url: …), else from its default. The file can also list the
regions:

  regions:
    - {region: local, description: This machine}
    - region: eu-1
      description: Frankfurt
      db: postgres://steward:…@db.example.com/postgres  # or db_file: path; default: embedded
      kv: redis://:…@kv.example.com:6379                # or kv_file: path; default: embedded
      s3: none                                          # default: embedded

Secrets are not flags, because other users of the machine can read command lines. Set the environment
variable, or put the value into a file and its path into the variable with _FILE appended or into the
YAML file (root_key_file: …):

`)
	for _, s := range settings(&Config{}) {
		if s.kind == secret {
			fmt.Fprintf(&b, "  %-24s %s\n", s.env(), s.usage)
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

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
